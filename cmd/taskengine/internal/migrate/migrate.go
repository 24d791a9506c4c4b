// Package migrate finds the schema version of a database and its pending migrations, and applies them.
// The migrations are in package storage/postgres/schema.
package migrate

import (
	"context"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Target is a schema in a database.
type Target struct{ URL, Schema string }

// State has the applied and pending migrations of a target.
type State struct {
	Schema  string
	Applied []schema.Migration // oldest first; migrations of a newer program have no SQL
	Pending []schema.Migration // known to this program and not applied
}

// State reads the state of t.
func (t Target) State(ctx context.Context) (State, error) {
	applied, err := schema.Applied(ctx, t.URL, t.Schema)
	if err != nil {
		return State{}, database.OneLine(err)
	}
	return stateOf(t.Schema, applied), nil
}

func stateOf(name string, applied []schema.Migration) State {
	s := State{Schema: name, Applied: applied}
	all := schema.Migrations(name)
	s.Pending = all[min(s.Version(), len(all)):]
	return s
}

// Apply applies the pending migrations, all or none, and returns them.
func (t Target) Apply(ctx context.Context) ([]schema.Migration, error) {
	applied, err := schema.Migrate(ctx, t.URL, t.Schema)
	if err != nil {
		return nil, database.OneLine(err)
	}
	return applied, nil
}

// Verify returns the differences between t and the result of its migrations.
func (t Target) Verify(ctx context.Context) ([]schema.Difference, error) {
	found, err := schema.Verify(ctx, t.URL, t.Schema)
	if err != nil {
		return nil, database.OneLine(err)
	}
	return found, nil
}

// Script returns the SQL that applies the pending migrations. It fails if the target is of a
// program so new that this one must not change it.
func (s State) Script() (string, error) {
	if err := schema.CheckVersion(s.Version()); err != nil {
		return "", err
	}
	return schema.Script(s.Schema, s.Pending), nil
}

// ScriptForNew returns the SQL that makes a schema in an empty database.
func ScriptForNew(name string) string { return schema.Script(name, schema.Migrations(name)) }

// All returns the applied and the pending migrations, oldest first.
func (s State) All() []schema.Migration { return slices.Concat(s.Applied, s.Pending) }

// UpToDate describes a state that lacks no migration.
func (s State) UpToDate() string {
	at, known := s.Version(), len(schema.Migrations(s.Schema))
	if at > known {
		return fmt.Sprintf("a newer program has brought the schema %s to version %d, and this one, which knows %d, works with it", s.Schema, at, known)
	}
	return fmt.Sprintf("the schema %s is at version %d, up to date", s.Schema, at)
}

// Version returns the version that the applied migrations make, 0 if there are none.
func (s State) Version() int {
	if len(s.Applied) == 0 {
		return 0
	}
	return s.Applied[len(s.Applied)-1].Version
}
