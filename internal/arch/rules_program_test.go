//go:build !race

package arch_test

// programRules are the rules of the programs and of their configuration.
var programRules = []rule{
	{
		Of:  "bench",
		May: []string{"bench/result", "bench/limits", "engine", "policy", "task", "storage", "config", "handlers", "plugins", "plugins/handler", "internal/machine", "internal/units"},
		Out: []string{"golang.org/x/sys"},
		Why: "the engine is measured through its public API",
	},
	{
		Of:  "bench/result",
		May: []string{"internal/machine", "internal/objective"},
		Out: []string{"github.com/HdrHistogram/hdrhistogram-go"},
		Why: "a result knows nothing of what was measured",
	},
	{
		Of:  "bench/report",
		May: []string{"bench/result", "internal/chart", "internal/machine", "internal/units"},
		Why: "a page is drawn from results alone",
	},
	{
		Of:  "bench/pressure",
		May: []string{"bench/pressure/adapter", "bench/report", "bench/result", "internal/machine", "internal/pgtest", "internal/servertest", "internal/units"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "a campaign knows queues by what their processes print, and starts real servers as tests do",
	},
	{
		Of:  "bench/pressure/adapter",
		May: []string{"bench/result"},
		Why: "an adapter does not know which queue it runs",
	},
	{
		Of: "bench/pressure/taskengine-bench",
		May: []string{
			"bench/pressure/adapter", "client", "coord/postgres", "engine", "plugins/handler", "policy", "storage", "storage/pebble", "storage/postgres",
			"storage/postgres/schema", "task",
		},
		Out: []string{"github.com/cockroachdb/pebble", "github.com/jackc/pgx"},
		Why: "the engine is measured through its public API",
	},
	{
		Of:  "bench/compare",
		May: []string{"bench/result"},
		Out: []string{"github.com/aclements/go-moremath"},
		Why: "results are compared by what they say",
	},
	{
		Of:  "bench/limits",
		May: []string{"bench/result", "storage", "storage/pebble", "storage/bolt", "task"},
		Out: []string{"github.com/cockroachdb/pebble", "github.com/google/btree", "go.etcd.io/bbolt", "golang.org/x/sys", "google.golang.org/grpc", "google.golang.org/protobuf"},
		Why: "the machine is measured without an engine",
	},
	{
		Of:  "capacity",
		May: []string{"engine", "engine/sim", "policy", "task", "storage", "storage/bolt", "storage/memory", "storage/pebble", "config", "internal/machine", "internal/objective", "internal/units"},
		Out: []string{"github.com/cockroachdb/pebble", "golang.org/x/sys"},
		Why: "planning needs the engine and its simulation, and none of the benchmarks",
	},
	{
		Of:  "config",
		May: []string{"alert", "filter", "task", "policy", "kafka/source", "schedule", "schedule/calendar", "timeslice", "workflow", "internal/access", "internal/place", "internal/redact", "internal/suggest", "internal/tlsfiles", "internal/units"},
		Out: []string{"*"},
		Why: "a configuration is read into policies and definitions of schedules, workflows and sources; cmd/taskengine builds things from it",
	},
	{
		Of:  "cmd/taskengine",
		May: []string{"cmd/taskengine/internal/cli"},
		Why: "main calls the command line and nothing else, and each package below it has a rule of its own",
	},
	{
		Of:  "cmd/taskengine/internal/top",
		May: []string{"dashboard", "internal/terminal", "internal/units", "server/proto/taskengine/v1"},
		Out: []string{"github.com/rivo/uniseg", "golang.org/x/term", "google.golang.org/protobuf"},
		Why: "a terminal shows the numbers of the dashboard, and others ask the node",
	},
	{
		Of: "cmd/taskengine/internal/cli",
		May: []string{
			"bench/...", "capacity", "cmd/taskengine/internal/...", "config", "coord", "filter", "policy", "task", "internal/machine", "internal/terminal",
			"internal/access", "internal/suggest", "internal/tlsfiles", "internal/units", "plugins", "plugins/conform", "schedule", "schedule/calendar", "server/...", "storage", "storage/postgres/schema",
			"workflow", "storage/transfer",
		},
		Out: []string{"*"},
		Why: "the command line reads flags and prints; the packages beside it open stores and run nodes",
	},
	{
		Of:  "cmd/taskengine/internal/sources",
		May: []string{"engine", "kafka/consume", "server"},
		Why: "the API knows no broker: what reads from one is shown to it here",
	},
	{
		Of: "cmd/taskengine/internal/alerting",
		May: []string{
			"alert", "alert/duty", "alert/target", "config", "coord", "coord/local", "coord/stored", "engine", "task", "internal/machine",
			"internal/terminal", "internal/wakeup", "schedule/scheduler", "server", "storage", "timeslice/slicer",
		},
		Why: "what a node observes becomes facts here; package alert decides",
	},
	{
		Of:  "cmd/taskengine/internal/hooks",
		May: []string{"alert/target", "config", "engine", "filter", "task", "internal/wakeup", "server", "storage"},
		Why: "what the engine knows of changes is sent by what sends notifications",
	},
	{
		Of: "cmd/taskengine/internal/node",
		May: []string{
			"cmd/taskengine/internal/alerting", "cmd/taskengine/internal/brokers", "cmd/taskengine/internal/coordinator", "cmd/taskengine/internal/database", "cmd/taskengine/internal/descriptors", "cmd/taskengine/internal/hooks",
			"bulk", "bulk/jobs", "capacity", "cmd/taskengine/internal/sources", "cmd/taskengine/internal/stores", "cmd/taskengine/internal/systemd", "cmd/taskengine/internal/traces", "codec", "config", "coord", "dashboard", "coord/guid", "coord/kafka", "coord/postgres",
			"engine", "policy", "task", "handlers", "internal/access", "internal/pgsession", "internal/redact", "internal/tlsfiles", "internal/wakeup", "kafka/consume", "kafka/publish", "plugins", "plugins/workers", "schedule", "schedule/scheduler", "server", "server/peer", "server/sessions", "server/tokens", "storage", "timeslice/slicer", "workflow", "workflow/runner", "tasklog", "dashboard/oidc", "coord/secret",
		},
		Out: []string{"github.com/cockroachdb/pebble", "github.com/jackc/pgx", "google.golang.org/grpc"},
		Why: "a node is put together here: the engine, its store, its handlers and its server",
	},
	{
		Of:  "cmd/taskengine/internal/reaper",
		Why: "process 1 waits for processes, whatever they run",
	},
	{
		Of:  "cmd/taskengine/internal/systemd",
		Out: []string{"golang.org/x/sys"},
		Why: "a service manager gets the state of a node, whatever the node consists of",
	},
	{
		Of:  "cmd/taskengine/internal/traces",
		May: []string{"config", "internal/ratelog", "tracing"},
		Out: []string{"go.opentelemetry.io/otel"},
		Why: "a node sends spans as its configuration says; package tracing makes them",
	},
	{
		Of:  "cmd/taskengine/internal/brokers",
		May: []string{"config", "internal/tlsfiles", "kafka", "kafka/source"},
		Why: "connections and sources are described here as a configuration names them",
	},
	{
		Of:  "cmd/taskengine/internal/coordinator",
		May: []string{"config", "coord", "coord/etcd", "coord/zk", "internal/tlsfiles"},
		Why: "a connection is made here from what a configuration says",
	},
	{
		Of: "cmd/taskengine/internal/stores",
		May: []string{
			"cmd/taskengine/internal/database", "cmd/taskengine/internal/descriptors", "cmd/taskengine/internal/exit", "cmd/taskengine/internal/folder",
			"config", "storage/...",
		},
		Out: []string{"github.com/cockroachdb/pebble", "github.com/jackc/pgx"},
		Why: "it chooses the backend of storage and knows no engine",
	},
	{
		Of:  "cmd/taskengine/internal/database",
		May: []string{"cmd/taskengine/internal/exit", "config", "task", "storage", "storage/postgres/...", "storage/sharded"},
		Out: []string{"github.com/jackc/pgx"},
		Why: "it opens databases and knows no other store",
	},
	{
		Of: "cmd/taskengine/internal/coordination",
		May: []string{
			"cmd/taskengine/internal/coordinator", "cmd/taskengine/internal/stores", "config", "coord", "coord/postgres", "coord/record", "coord/stored",
			"storage", "storage/postgres/...",
		},
		Why: "it tells which nodes use a store and where they keep settings, and reads and removes their record; nodes write it",
	},
	{
		Of: "cmd/taskengine/internal/backup",
		May: []string{
			"cmd/taskengine/internal/address", "cmd/taskengine/internal/exit", "cmd/taskengine/internal/folder", "cmd/taskengine/internal/stores",
			"config", "server", "storage",
		},
		Why: "a backup is made of the files of a store, whichever backend it has",
	},
	{
		Of: "cmd/taskengine/internal/doctor",
		May: []string{
			"cmd/taskengine/internal/backup", "cmd/taskengine/internal/coordinator", "cmd/taskengine/internal/database", "cmd/taskengine/internal/stores", "codec", "config", "task",
			"coord/record", "internal/units", "storage", "storage/postgres/...", "storage/transfer",
		},
		Out: []string{"github.com/cockroachdb/pebble"},
		Why: "what it finds is data; the command line prints it",
	},
	{
		Of: "cmd/taskengine/internal/storecopy",
		May: []string{
			"cmd/taskengine/internal/backup", "cmd/taskengine/internal/coordination", "cmd/taskengine/internal/database",
			"cmd/taskengine/internal/stores", "config", "coord", "storage", "storage/transfer",
		},
		Why: "it opens two stores and leaves the copying to storage/transfer",
	},
	{
		Of:  "cmd/taskengine/internal/migrate",
		May: []string{"cmd/taskengine/internal/database", "storage/postgres/schema"},
		Why: "the migrations belong to the schema of the store",
	},
	{
		Of: "cmd/taskengine/internal/upgrade",
		May: []string{
			"cmd/taskengine/internal/coordinator", "cmd/taskengine/internal/database", "cmd/taskengine/internal/migrate", "cmd/taskengine/internal/stores",
			"config", "coord", "storage", "storage/postgres/schema",
		},
		Why: "it looks at stores and databases, and the command line at the nodes",
	},
	{
		Of:  "cmd/taskengine/internal/newnode",
		May: []string{"cmd/taskengine/internal/exit", "cmd/taskengine/internal/folder", "cmd/taskengine/internal/scaffold", "config"},
		Out: []string{"go.yaml.in/yaml/v4"},
		Why: "it writes a file from answers, which the command line asks for",
	},
	{
		Of:  "cmd/taskengine/internal/scaffold",
		May: []string{"", "cmd/taskengine/internal/exit"}, // "" has the sources
		Out: []string{"go.yaml.in/yaml/v4"},
		Why: "it writes files from templates and sources",
	},
	{
		Of:  "cmd/taskengine/internal/exit",
		May: []string{"config"},
		Why: "an exit code is known for an error, whatever the error is about",
	},
	{
		Of:  "cmd/taskengine/internal/service",
		Why: "it writes files and runs commands of the service manager",
	},
	{
		Of:  "cmd/taskengine/internal/manual",
		Out: []string{"github.com/spf13/cobra", "github.com/spf13/pflag"},
		Why: "it writes pages from commands, whatever these do",
	},
	{
		Of:  "cmd/taskengine/internal/folder",
		Out: []string{"github.com/cockroachdb/pebble"},
		Why: "it makes folders and knows nothing of what is in them; pebble locks files on every platform",
	},
	{
		Of:  "cmd/taskengine/internal/descriptors",
		Why: "it divides a number",
	},
	{
		Of:  "cmd/taskengine/internal/address",
		Why: "it reads text",
	},
}
