package postgres

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// DefaultSchema is the schema if [Options] have none.
const DefaultSchema = "taskengine"

//go:embed tables.sql
var tablesSQL string

//go:embed functions.sql
var functionsSQL string

// identifier matches names of schemas that need no escaping in any place where they are used.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// CheckSchema returns an error unless name can be the name of a schema here: up to 63
// letters, digits and underscores, not beginning with a digit.
func CheckSchema(name string) error {
	if !identifier.MatchString(name) {
		return fmt.Errorf("schema %q: want 1 to 63 letters (A-Z, a-z), digits and underscores, beginning with no digit", name)
	}
	return nil
}

// Tables returns the names of the tables in the schema.
func Tables() []string {
	return []string{"session", "member", "leader", "pulse", "setting", "ordering", "semaphore", "permit", "rate"}
}

// DDL returns the statements that create the tables in an existing schema. They must run as one, and before the statements
// of [Functions]. The name must pass [CheckSchema].
func DDL(schema string) string { return fill(schema, tablesSQL) }

// Functions returns the statements that create the functions, or replace them. They must run as one.
func Functions(schema string) string { return fill(schema, functionsSQL) }

func fill(schema, sql string) string {
	return strings.NewReplacer("{schema}", quote(schema), "{channel}", "'"+Channel(schema)+"'").Replace(sql)
}

// Channel returns the name of the channel on which processes listen. See [Coord.Subscribe] for
// the payload that any statement may notify.
func Channel(schema string) string { return schema }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// checkText returns an error for text that the database cannot store, which would fail a
// statement together with the requests of others in it.
func checkText(what string, texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return fmt.Errorf("%s %q: want valid UTF-8 without NUL", what, s)
		}
	}
	return nil
}
