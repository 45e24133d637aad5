"""What holds for every test: properties are searched without a stop-watch, for a busy machine is no counterexample."""

from hypothesis import settings

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")
