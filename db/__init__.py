"""The store on SQLite, PostgreSQL or MariaDB: one schema, one set of queries, rules kept by the database itself."""
