package schema

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// advised adds to an error of the database what an operator can do about it, if that is known. The
// error is of a connection with this configuration. denied returns the advice for a role that lacks
// a right, which depends on the operation.
func advised(err error, c *pgx.ConnConfig, denied func(role, database string) string) error {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return err
	}
	role, database := word(c.User), word(cmp.Or(c.Database, c.User))
	var advice string
	var connecting *pgconn.ConnectError
	switch notIn := errors.As(err, &connecting); {
	case said.Code == "3D000":
		advice = fmt.Sprintf("make it: `create database %s owner %s`, or correct the URL", database, role)
	case said.Code == "28P01":
		advice = "correct the password: in the URL, in PGPASSWORD or in ~/.pgpass"
	case said.Code == "28000":
		advice = fmt.Sprintf("make the role: `create role %s login`, have pg_hba.conf of the server let it in, or correct the URL", role)
	case said.Code == "42501" && notIn:
		advice = fmt.Sprintf("let the role in: `grant connect on database %s to %s`", database, role)
	case said.Code == "42501":
		advice = denied(role, database)
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// toMigrate returns the advice for a role that makes the tables.
func toMigrate(schema string) func(role, database string) string {
	return func(role, database string) string {
		return fmt.Sprintf("let the role make the schema %s: `grant create on database %s to %s`; or, if the schema is there, connect as the role that owns it and its tables",
			word(schema), database, role)
	}
}

// toRead returns the advice for a role that reads the tables.
func toRead(schema string) func(role, database string) string {
	return func(role, _ string) string {
		return fmt.Sprintf("connect as the role that owns the tables, as nodes must; or let this one read them: `grant usage on schema %[1]s to %[2]s; grant select on all tables in schema %[1]s to %[2]s`",
			word(schema), role)
	}
}

// configOf returns the configuration of the connection of q.
func configOf(q Querier) *pgx.ConnConfig {
	switch q := q.(type) {
	case *pgxpool.Pool:
		return q.Config().ConnConfig
	case pgx.Tx:
		return q.Conn().Config()
	}
	return new(pgx.ConnConfig)
}

var plainWord = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// word returns a name as SQL has it, with quotes only if it needs them.
func word(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}
