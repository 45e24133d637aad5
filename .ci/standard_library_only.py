"""An import-linter contract: the named packages import themselves and the standard library, nothing else."""

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.imports import Module


class StandardLibraryOnly(Contract):
    """Look at direct imports only: what is imported may itself import no more than this."""

    packages = fields.ListField(subfield=fields.ModuleField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        found = [
            f"{importer} imports {imported} ({_lines(graph, importer, imported)})"
            for package in _names(self.packages)
            for importer in sorted({package, *graph.find_descendants(package)})
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not _inside(imported, package) and imported.split(".")[0] not in sys.stdlib_module_names
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)
        output.new_line()


def _names(packages: object) -> list[str]:
    assert isinstance(packages, list)
    return [package.name for package in packages if isinstance(package, Module)]


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _lines(graph: ImportGraph, importer: str, imported: str) -> str:
    details = graph.get_import_details(importer=importer, imported=imported)
    return ", ".join(f"line {detail['line_number']}" for detail in details)
