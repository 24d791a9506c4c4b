//go:build !race

package arch_test

import "slices"

// rule has the imports that the packages at or below Of may have besides the standard library.
// The rule with the longest Of decides for a package; one without a rule is free.
type rule struct {
	Of  string
	May []string // packages of this module; "x/..." is x and all below
	Out []string // modules from outside, by prefix; "*" is any
	Why string
}

// rules are the layers: cmd connects the parts, engine decides, ports are contracts, backends
// implement them, and all of them use the package task. Each rule is about a package that exists.
var rules = slices.Concat(internalRules, programRules, []rule{
	{
		Of:  "task",
		Why: "the vocabulary must be usable by every port, backend and plugin",
	},
	{
		Of:  "policy",
		May: []string{"task"},
		Why: "policies are plain data",
	},
	{
		Of:  "steps",
		May: []string{"task"},
		Why: "a flow needs no more than what every handler has",
	},
	{
		Of:  "workflow",
		May: []string{"task", "internal/suggest"},
		Why: "what a workflow does next is decided by its row and the ends of its children, without an engine",
	},
	{
		Of:  "workflow/runner",
		May: []string{"engine", "policy", "task", "workflow"},
		Why: "a workflow is a client of the engine, as a schedule is",
	},
	{
		Of:  "engine/internal/window",
		Why: "the window algorithm knows positions, and nothing of tasks",
	},
	{
		Of:  "engine/internal",
		May: []string{"task", "policy", "coord", "engine/internal/..."},
		Out: []string{"github.com/google/btree"},
		Why: "the core decides by its input, and knows a coordinator by its data alone; package engine talks to stores and nodes",
	},
	{
		Of:  "engine/internal/shell",
		May: []string{"engine/internal/core", "policy", "task", "storage"},
		Why: "the shell decides about batches and their outcomes, and knows a store by its data alone; package engine does the I/O",
	},
	{
		Of:  "internal/scripttest",
		Why: "a script does not depend on the machine that plays it",
	},
	{
		Of:  "engine/internal/cluster",
		May: []string{"engine/internal/core", "task", "storage", "coord", "coord/local", "coord/stored", "internal/ratelog", "internal/wakeup"},
		Why: "what deals with other nodes knows the ports and the core, and the engine by functions alone; a node alone is one of a cluster in memory",
	},
	{
		Of:  "filter",
		May: []string{"task", "internal/suggest", "internal/units"},
		Why: "a filter is read and applied alike in the API, in commands and in jobs",
	},
	{
		Of:  "engine",
		May: []string{"engine/...", "filter", "policy", "task", "codec", "storage", "coord", "coord/record", "internal/place", "internal/workpool", "internal/ratelog", "internal/reserved", "internal/suggest", "internal/wakeup"},
		Why: "the engine knows ports; cmd/taskengine chooses the backends",
	},
	{
		Of:  "engine/sim",
		May: []string{"engine/internal/...", "policy", "task", "storage"},
		Out: []string{"github.com/google/btree"},
		Why: "a simulation runs the real shell, core and table, and models everything else; it knows a store by its data alone",
	},
	{
		Of:  "engine/enginetest",
		May: []string{"engine/...", "policy", "task", "filter", "codec", "storage", "storage/memory", "storage/storagetest", "coord", "coord/local"},
		Why: "scenarios run on every store, and know none but the one in memory",
	},
	{
		Of:  "kafka",
		May: []string{"internal/tlsfiles"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a connection does not depend on what it is used for",
	},
	{
		Of:  "kafka/publish",
		May: []string{"task", "internal/place", "kafka"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a handler knows tasks, and nothing of the engine that runs it",
	},
	{
		Of:  "kafka/source",
		May: []string{"task", "internal/place", "kafka"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a record becomes a request whatever submits it",
	},
	{
		Of:  "kafka/consume",
		May: []string{"engine", "policy", "task", "internal/ratelog", "internal/reserved", "kafka", "kafka/source", "storage"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a source is a client of the engine, as a schedule is, and commits positions by any store",
	},
	{
		Of:  "codec",
		Out: []string{"github.com/klauspost/compress"},
		Why: "what tasks carry is encoded by its kind and the type of the task, which are texts",
	},
	{
		Of:  "storage",
		May: []string{"task"},
		Why: "a port uses the types of tasks and nothing else",
	},
	{
		Of:  "storage/internal",
		May: []string{"storage", "task"},
		Why: "what backends share knows no particular one",
	},
	{
		Of:  "storage/records",
		May: []string{"storage", "storage/internal/...", "task"},
		Why: "what makes a store of a backend in another module knows no particular one",
	},
	{
		Of:  "storage/memory",
		May: []string{"storage", "task"},
		Why: "a backend implements its port and knows no other backend",
	},
	{
		Of:  "storage/bolt",
		May: []string{"storage", "storage/internal/...", "task"},
		Out: []string{"go.etcd.io/bbolt"},
		Why: "a backend implements its port and brings one dependency",
	},
	{
		Of:  "storage/pebble",
		May: []string{"storage", "storage/internal/...", "task"},
		Out: []string{"github.com/cockroachdb/pebble"},
		Why: "a backend implements its port and brings one dependency",
	},
	{
		Of:  "storage/postgres",
		May: []string{"internal/pglocks", "internal/pgsession", "internal/wakeup", "storage", "storage/internal/...", "storage/postgres/internal/...", "storage/postgres/schema", "task"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "a backend implements its port and brings one dependency; it checks its tables, and does not know what examines or divides it",
	},
	{
		Of:  "storage/postgres/internal/ended",
		Why: "the names and bounds of partitions are arithmetic",
	},
	{
		Of:  "storage/postgres/schema",
		May: []string{"internal/pgsession", "storage/postgres/internal/ended", "coord/postgres", "task"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "the tables are made without the store; the migrations make those of the coordination, too",
	},
	{
		Of:  "storage/postgres/health",
		May: []string{"storage", "storage/postgres", "storage/postgres/internal/ended", "storage/postgres/schema", "coord/postgres", "task"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "an examination uses a store, and no store needs it",
	},
	{
		Of:  "storage/postgres/internal/home",
		May: []string{"storage", "storage/postgres/schema", "task"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "the store reads one row, and what divides the shards writes it",
	},
	{
		Of:  "storage/postgres/placement",
		May: []string{"storage", "storage/postgres", "storage/postgres/internal/home", "storage/postgres/schema", "task"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "what divides and moves the shards uses stores, and no store needs it",
	},
	{
		Of:  "storage/postgres/postgrestest",
		May: []string{"internal/pgtest", "storage/postgres", "storage/postgres/schema"},
		Why: "tests open a store as programs do",
	},
	{
		Of:  "storage/transfer",
		May: []string{"storage", "task"},
		Why: "what moves tasks from one store to another knows the port, and no store",
	},
	{
		Of:  "storage/sharded",
		May: []string{"storage", "task"},
		Why: "what spreads tasks over several stores knows the port, and no store",
	},
	{
		Of:  "storage/storagetest",
		May: []string{"storage", "storage/memory", "task"},
		Out: []string{"github.com/anishathalye/porcupine"},
		Why: "a suite knows its port, not the backends that run it",
	},
	{
		Of:  "coord",
		May: []string{"task"},
		Why: "a port uses the types of tasks and nothing else",
	},
	{
		Of:  "coord/secret",
		May: []string{"coord"},
		Why: "a secret of a cluster is kept without its coordinator",
	},
	{
		Of:  "coord/kept",
		May: []string{"coord", "internal/wakeup"},
		Why: "a value of a cluster is followed, whatever it means",
	},
	{
		Of:  "coord/record",
		May: []string{"coord", "storage"},
		Why: "what the nodes of a store have in common is recorded by the two ports, and no backend",
	},
	{
		Of:  "coord/internal",
		May: []string{"coord", "coord/internal/...", "coord/local", "task", "internal/wakeup"},
		Out: []string{"golang.org/x/sys"},
		Why: "what backends share knows no particular one",
	},
	{
		Of:  "coord/cells",
		May: []string{"coord", "coord/internal/...", "coord/local", "task", "internal/wakeup"},
		Why: "what makes a coordinator of a store of cells knows no particular one",
	},
	{
		Of:  "coord/local",
		May: []string{"coord", "coord/internal/...", "task", "internal/wakeup"},
		Why: "a backend implements its port and knows no other backend",
	},
	{
		Of:  "coord/postgres",
		May: []string{"internal/pglocks", "internal/pgsession", "coord", "coord/internal/...", "coord/local", "task", "internal/wakeup"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "a backend implements its ports and brings one dependency; within one process callers agree by coord/local",
	},
	{
		Of:  "coord/kafka",
		May: []string{"coord", "coord/internal/...", "coord/local", "task", "internal/ratelog", "internal/wakeup", "kafka"},
		Out: []string{"github.com/twmb/franz-go"},
		Why: "a backend implements its ports and brings one dependency; it connects to brokers as other uses of Kafka do",
	},
	{
		Of:  "coord/etcd",
		May: []string{"coord", "coord/cells", "coord/internal/..."},
		Out: []string{"go.etcd.io/etcd", "go.uber.org/zap", "google.golang.org/grpc"},
		Why: "a backend is a store of cells for coord/cells, and brings one dependency, which is based on the others",
	},
	{
		Of:  "coord/zk",
		May: []string{"coord", "coord/cells", "coord/internal/...", "coord/zk/internal/...", "internal/wakeup"},
		Out: []string{"github.com/go-zookeeper/zk"},
		Why: "a backend is a store of cells for coord/cells, and brings one dependency",
	},
	{
		Of:  "coord/stored",
		May: []string{"coord", "coord/internal/...", "storage", "internal/wakeup"},
		Why: "settings and rates are kept by the port of stores, in any of them",
	},
	{
		Of:  "coord/guid",
		May: []string{"coord", "coord/internal/...", "coord/guid/internal/...", "coord/local", "task"},
		Why: "an election needs messages, whichever backend carries them; within one process callers agree by coord/local",
	},
	{
		Of:  "coord/guid/internal/election",
		May: []string{"task"},
		Why: "what decides who leads neither waits nor sends",
	},
	{
		Of:  "coord/coordtest",
		May: []string{"coord", "task", "internal/logtest", "internal/wakeup", "internal/wiretest"},
		Out: []string{"pgregory.net/rapid"},
		Why: "a suite knows its port, not the backends that run it",
	},
	{
		Of:  "plugins",
		May: []string{"task", "policy", "plugins/...", "internal/workpool", "internal/ratelog", "internal/supervise", "internal/wakeup"},
		Out: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "a plugin host is a task.Handler and knows no engine",
	},
	{
		Of:  "plugins/internal/calls",
		May: []string{"task", "internal/pattern", "plugins/internal/wire"},
		Why: "the translation of messages has no state and knows no host",
	},
	{
		Of:  "plugins/internal/dispatch",
		May: []string{"task", "internal/wakeup", "internal/workpool", "plugins/internal/calls", "plugins/internal/wire"},
		Why: "what the hosts of handlers share starts nothing and connects to nothing",
	},
	{
		Of:  "plugins/internal/programlog",
		May: []string{"task", "internal/ratelog", "plugins/internal/wire"},
		Why: "what the hosts of handlers share starts nothing and connects to nothing",
	},
	{
		Of:  "plugins/internal/wire",
		Out: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "the protocol is shared by host, SDK and conformance kit, and knows none of them",
	},
	{
		Of:  "plugins/workers",
		May: []string{"policy", "task", "internal/wakeup", "plugins/internal/calls", "plugins/internal/dispatch", "plugins/internal/programlog", "plugins/internal/wire"},
		Out: []string{"google.golang.org/grpc"},
		Why: "what gives tasks to workers is a task.Handler and a gRPC service; it knows no engine, no API and no process",
	},
	{
		Of:  "plugins/conform",
		May: []string{"engine", "policy", "task", "internal/supervise", "plugins", "plugins/internal/wire", "plugins/workers", "storage", "storage/memory"},
		Out: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "a program is examined by a host that breaks rules on purpose, and by a node in memory",
	},
	{
		Of:  "plugins/handler",
		May: []string{"task", "plugins/internal/wire", "internal/workpool", "internal/wakeup"},
		Out: []string{"golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "the SDK speaks the protocol and knows no host",
	},
	{
		Of:  "alert",
		Why: "notifications, and their times, are decided without an engine, a clock and a network",
	},
	{
		Of:  "alert/target",
		May: []string{"alert", "internal/supervise", "internal/terminal"},
		Why: "a target sends what it is given, and knows no engine",
	},
	{
		Of:  "alert/duty",
		May: []string{"alert", "alert/target", "coord", "internal/ratelog", "internal/wakeup"},
		Why: "what observes is passed in; states are kept by a port, in any store",
	},
	{
		Of:  "internal/smtptest",
		Why: "a server for tests does not depend on the tests",
	},
	{
		Of:  "tracing",
		May: []string{"task"},
		Out: []string{"go.opentelemetry.io/otel"},
		Why: "spans are made around handlers and requests; the engine knows none, and the program chooses where they go",
	},
	{
		Of:  "handlers",
		May: []string{"task", "handlers/internal/answer", "internal/ratelog", "internal/supervise"},
		Out: []string{"golang.org/x/net"},
		Why: "a built-in handler is a task.Handler and knows no engine",
	},
	{
		Of:  "handlers/internal/answer",
		May: []string{"task", "internal/pattern", "internal/suggest"},
		Why: "a document is read without the command or the server that wrote it",
	},
	{
		Of: "server",
		May: []string{
			"server/peer", "server/proto/...", "server/sessions", "server/tokens", "alert", "bulk", "bulk/jobs", "coord", "engine", "filter", "policy", "task", "schedule", "schedule/scheduler", "storage", "tasklog", "timeslice", "timeslice/slicer", "workflow", "workflow/runner",
			"internal/access", "internal/ratelog", "internal/redact", "internal/suggest", "internal/terminal",
		},
		Out: []string{"connectrpc.com/connect", "github.com/prometheus/client_golang", "golang.org/x/net", "google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "the API translates between messages and the engine; it knows no backend, no handler and no configuration",
	},
	{
		Of:  "dashboard/oidc",
		May: []string{"internal/access"},
		Out: []string{"github.com/coreos/go-oidc/v3/oidc", "golang.org/x/oauth2"},
		Why: "who somebody is at a provider is found out without the pages",
	},
	{
		Of:  "dashboard",
		May: []string{"dashboard/oidc", "filter", "internal/access", "internal/chart", "internal/redact", "internal/terminal", "internal/units", "server/proto/..."},
		Out: []string{"connectrpc.com/connect", "google.golang.org/protobuf"},
		Why: "pages ask the API as every client does; they know no engine and no server",
	},
	{
		Of:  "server/peer",
		May: []string{"coord", "coord/secret", "task", "internal/access", "internal/ratelog", "server/proto/..."},
		Out: []string{"connectrpc.com/connect"},
		Why: "nodes ask each other without the engine that answers",
	},
	{
		Of:  "server/proto",
		May: []string{"server/proto/..."},
		Out: []string{"connectrpc.com/connect", "google.golang.org/protobuf"},
		Why: "clients import the messages without the server",
	},
	{
		Of:  "client",
		May: []string{"task", "internal/tlsfiles", "internal/wakeup", "internal/workpool", "server/proto/..."},
		Out: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "programs that add tasks have the client, and neither an engine nor a server",
	},
	{
		Of:  "schedule",
		May: []string{"task", "schedule", "schedule/calendar"},
		Why: "what a schedule does at a time is decided without an engine and a clock",
	},
	{
		Of:  "bulk",
		May: []string{"filter", "task"},
		Why: "a job is described and checked without an engine and a clock",
	},
	{
		Of:  "bulk/jobs",
		May: []string{"bulk", "engine", "filter", "policy", "task", "internal/reserved", "internal/wakeup"},
		Why: "a job is a task like any other: its handler uses what every program can",
	},
	{
		Of:  "timeslice",
		May: []string{"task", "internal/suggest"},
		Why: "what a platform does at a time is decided without effects",
	},
	{
		Of:  "timeslice/slicer",
		May: []string{"coord", "engine", "policy", "task", "internal/ratelog", "internal/reserved", "internal/wakeup", "storage", "timeslice"},
		Why: "a platform is a task like any other: the slicer is a handler, and uses what every program can",
	},
	{
		Of:  "schedule/scheduler",
		May: []string{"coord", "engine", "policy", "task", "internal/ratelog", "internal/reserved", "schedule", "storage"},
		Why: "a schedule is a task like any other: the scheduler is a handler, and uses what every program can",
	},
	{
		Of:  "schedule/calendar",
		Why: "when a schedule fires follows from its calendar and a time alone",
	},
	{
		Of:  "tasklog",
		May: []string{"codec", "storage", "task", "internal/wakeup"},
		Why: "lines are kept by task; cmd/taskengine connects the code that logs and reads them",
	},
	{
		Of:  "taskenginetest",
		May: []string{"engine", "task", "storage", "storage/memory"},
		Why: "a program tests what it does with the engine, whatever its store is",
	},
	{
		Of:  "server/tokens",
		May: []string{"coord", "coord/kept", "internal/access"},
		Why: "tokens are kept without the engine and the API",
	},
	{
		Of:  "server/sessions",
		May: []string{"coord", "coord/kept", "internal/access"},
		Why: "which sessions have ended is kept without the pages and the API",
	},
	{
		Of:  "internal/machine",
		Out: []string{"golang.org/x/sys"},
		Why: "what a machine is has nothing to do with what is measured on it",
	},
})

// onlyBy has for a package, and the packages below it, the only packages that may import them.
var onlyBy = map[string][]string{
	"server":   {"client", "dashboard", "server/...", "cmd/..."},
	"bench":    {"bench/...", "cmd/..."},
	"capacity": {"cmd/..."},
	"cmd":      {"cmd/..."},
}
