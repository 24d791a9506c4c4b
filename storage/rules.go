package storage

import (
	"context"
	"time"
)

// Ruled is implemented by stores in which others than an engine add tasks, such as by a
// function of the database. Engines tell it what those must know of the types.
type Ruled interface {
	// SetRules replaces the rules of these types, each of them given once. Those of the
	// type "" are for all that have none of their own. It returns when that is durable.
	SetRules(ctx context.Context, rules ...TypeRules) error
	// Rules returns the rules for tasks of a type, with the Type that they were set for.
	Rules(ctx context.Context, typ string) (TypeRules, error)
}

// TypeRules are what must be known of a type to add one of its tasks.
type TypeRules struct {
	Type         string
	Priority     uint8         // of tasks that are added without one
	MaxPayload   int           // bytes
	QueueTimeout time.Duration // how long a task may be ready and not run; 0 is for ever
	TotalTimeout time.Duration // how long it may take from when it is added; 0 is for ever
	Keyed        []Keyed       // where the values of its group are found, in their order
}

// Keyed says where the value is found that a limit counts by.
type Keyed struct {
	Limit string   `json:"limit"` // its name
	Path  []string `json:"path"`  // "payload", then the names of JSON members; "headers", then a name; "key"; "ordering_key"
}
