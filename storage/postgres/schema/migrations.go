package schema

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	coordination "github.com/taskengine/taskengine/coord/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Migration is a step from one version of the tables to the next.
type Migration struct {
	Version int       // from 1
	Name    string    // what it does
	SQL     string    // with the name of the schema filled in
	At      time.Time // when it was applied, by the database's clock; zero if it was not
}

// EarlyEnds is the version from which on the table ended has partitions for tasks that ended
// more than an hour before the time in their id.
const EarlyEnds = 5

// Inherits is the version from which on the rules of a type say whether its tasks inherit priorities.
const Inherits = 11

// Versions that make tables of package coord/postgres.
const (
	coordinationVersion = 3 // makes all of its tables
	livenessVersion     = 5 // brings them to their second version, too
	limitsVersion       = 6 // and to their third: permits, rates, and settings with versions
)

// Migrations returns all migrations for a schema, in their order, without times.
func Migrations(schema string) []Migration {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err) // it is part of the program
	}
	out := make([]Migration, 0, len(entries)+1)
	add := func(name, sql string) {
		out = append(out, Migration{Version: len(out) + 1, Name: name, SQL: sql})
		if len(out) == coordinationVersion-1 {
			out = append(out, Migration{Version: coordinationVersion, Name: "coordination", SQL: coordination.DDL(schema)})
		}
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("migrations", e.Name()))
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(out)+1 {
			panic(fmt.Sprintf("migration %s is not number %d", e.Name(), len(out)+1))
		}
		sql := Fill(schema)(string(text))
		switch version {
		case livenessVersion:
			sql += coordination.Upgrade(schema)
		case limitsVersion:
			sql += coordination.Limits(schema)
		}
		add(strings.ReplaceAll(name, "_", " "), sql)
	}
	return out
}
