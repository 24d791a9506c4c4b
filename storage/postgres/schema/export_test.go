package schema

import "context"

// MigrateNext is [Migrate] of a program of the next version, which has one migration more and these functions in addition.
func MigrateNext(ctx context.Context, url, schema, tables, functions string) ([]Migration, error) {
	return migrate(ctx, url, schema, func(schema string) release { return next(schema, tables, functions) })
}

// ScriptNext is [Script] of that program for its last migration.
func ScriptNext(schema, tables, functions string) string {
	r := next(schema, tables, functions)
	return r.script(schema, r.migrations[len(r.migrations)-1:])
}

// CheckNext returns the error of that program for tables at a version.
func CheckNext(at int, schema string) error { return next(schema, "", "").check(at, schema) }

func next(schema, tables, functions string) release {
	r, fill := own(schema), Fill(schema)
	r.migrations = append(r.migrations, Migration{Version: len(r.migrations) + 1, Name: "of tomorrow", SQL: fill(tables)})
	r.functions += fill(functions)
	return r
}
