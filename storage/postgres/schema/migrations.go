package schema

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"time"

	coordination "github.com/taskengine/taskengine/coord/postgres"
)

//go:embed tables.sql
var tables string

//go:embed functions.sql
var functions string

// firstName is the name of the first migration. Before the first release it was another one.
const firstName = "tables"

// Migration is a step from one version of the tables to the next. There is one for each release with other tables or functions
// than the release before.
type Migration struct {
	Version int       // from 1
	Name    string    // its effect
	SQL     string    // with the name of the schema filled in, without the functions
	At      time.Time // when it was applied, by the database's clock; zero if it was not
}

// release makes the schema of a program: the tables by migrations, and then the functions, triggers and views by one script,
// which replaces the existing ones.
type release struct {
	migrations []Migration // version 1 first
	functions  string
}

// own returns the release of this program. A later release appends a migration, and changes functions.sql in place.
func own(schema string) release {
	fill := Fill(schema)
	first := Migration{Version: 1, Name: firstName, SQL: fill(tables) + coordination.DDL(schema)}
	return release{migrations: []Migration{first}, functions: fill(functions) + "\n" + coordination.Functions(schema)}
}

// fingerprint identifies functions.
func (r release) fingerprint() string {
	sum := sha256.Sum256([]byte(r.functions))
	return hex.EncodeToString(sum[:])
}

// Migrations returns all migrations for a schema, in their order, without times.
func Migrations(schema string) []Migration { return own(schema).migrations }
