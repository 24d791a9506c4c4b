package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// maxCount bounds every number of things, so that sums of them never overflow.
const maxCount = math.MaxInt32

const aDuration = "a duration, such as 30s"

// root is the table: the whole file.
var root = &object{
	fields: []field{
		{name: "node", doc: "This process.", is: nodeTable, at: in(func(c *Config) *Node { return &c.Node })},
		{name: "storage", doc: "The store of the tasks.", is: storageTable, at: in(func(c *Config) *Storage { return &c.Storage })},
		{name: "encoding", doc: "How the store keeps the payloads, results and checkpoints of tasks. See [Encoding](operations.md#encoding).", is: encodingTable, at: in(func(c *Config) *Encoding { return &c.Encoding })},
		{name: "task_log", doc: "The logs of tasks: lines that handlers log about their tasks. `taskengine task logs` prints them.", is: taskLogTable, at: in(func(c *Config) *TaskLog { return &c.TaskLog })},
		{name: "coordination", doc: "How nodes coordinate.", is: coordinationTable, at: in(func(c *Config) *Coordination { return &c.Coordination })},
		{name: "bus", doc: "How nodes notify each other of ready tasks. A node finds a task without a notification within about a second, unless many tasks are before it.", is: busTable, at: in(func(c *Config) *Bus { return &c.Bus })},
		{name: "api", doc: "The API for clients. Without `tokens` every client may do everything, so the API listens on loopback, unless clients need certificates. See [Who may](operations.md#who-may).", is: apiTable, at: in(func(c *Config) *Listener { return &c.API })},
		{name: "ui", doc: "The [dashboard](dashboard.md): pages for a browser, which the listeners of the API serve. `ui: {}` turns it on. People log in with a token of `api.tokens`, if clients need one.", is: uiTable, at: in(func(c *Config) *UI { return &c.UI })},
		{name: "admin", doc: "The listener for metrics, health and profiles.", is: adminTable, at: in(func(c *Config) *Listener { return &c.Admin })},
		{name: "tracing", doc: "Sends spans of tasks to a collector of OpenTelemetry. See [Traces](operations.md#traces). Without `endpoint` there are none.", is: tracingTable, at: in(func(c *Config) *Tracing { return &c.Tracing })},
		{name: "kafka", doc: "Connections to clusters of Apache Kafka, by name. See [Kafka](kafka.md).", is: kafkaTable, at: in(func(c *Config) *map[string]Kafka { return &c.Kafka })},
		{name: "handlers", doc: "The handlers of tasks, by name.", is: handlersTable, at: in(func(c *Config) *map[string]Handler { return &c.Handlers })},
		{name: "retention", doc: "How long finished tasks are kept, unless their type sets another time. Tasks in the state `error` are kept until an operator resumes, fails or cancels them.", is: retentionTable(false), at: in(func(c *Config) *policy.Retention { return &c.Retention })},
		{name: "limits", doc: "Limits of concurrency and rate, by name. Limits form trees: a task that runs under a limit counts for all limits above it.", is: limitsTable, at: in(func(c *Config) *map[string]policy.Limit { return &c.Limits })},
		{name: "types", doc: "The settings of tasks, by type.", is: typesTable, at: in(func(c *Config) *map[string]Type { return &c.Types })},
		{name: "alerts", doc: "Notifications of operators about tasks in error, nodes that are down and the like. See the section about alerts in [operations.md](operations.md#alerts). Without this section the log says which types have new tasks in error, and there are no alerts.", is: alertsTable, at: in(func(c *Config) *Alerts { return &c.Alerts })},
		{name: "on", doc: "URLs that get changes of tasks as the node makes them, by the names of the hooks. See [Hooks](operations.md#hooks).", is: table[Hook]{of: "hooks", keys: isName, likely: "NAME", is: hookTable, fresh: func(*decoder, string) Hook {
			return Hook{AlertWebhook: AlertWebhook{Timeout: 10 * time.Second}, GiveUp: 24 * time.Hour}
		}}, at: in(func(c *Config) *map[string]Hook { return &c.On })},
		{name: "schedules", doc: "Tasks that recur, by the names of their schedules: see [Schedules](schedules.md). A node applies them when it starts. A schedule that was removed from the file goes on until `taskengine schedule delete` ends it.", is: schedulesTable, at: in(func(c *Config) *map[string]schedule.Definition { return &c.Schedules })},
		{name: "workflows", doc: "Graphs of steps that the node submits by their names: see [Workflows](workflows.md). A workflow has a copy of its definition, so a change of the file changes none that exists.", is: workflowsTable, at: in(func(c *Config) *map[string]*workflow.Definition { return &c.Workflows })},
		{name: "sources", doc: "What adds tasks by itself, by the names of the sources: topics with records that become tasks, see [Topics to tasks](kafka.md#topics-to-tasks), and platforms that are polled, see [Slices of time](slices.md).", is: sourcesTable, at: in(func(c *Config) *map[string]Source { return &c.Sources })},
	},
	later: map[string]string{
		"cluster": "not a section of this version; remove it: nodes that share a database need no other setting",
	},
}

var nodeTable = &object{fields: []field{
	{name: "name", doc: "The name of the node in logs and lists.", otherwise: "the name of the host", is: words("a name", isName), at: in(func(n *Node) *string { return &n.Name })},
	{name: "slots", doc: "How many tasks may run at once, each counted with its weight. 0 is no limit.", def: "100", is: whole[int](0, maxCount, "a number"), at: in(func(n *Node) *int { return &n.Slots })},
	{name: "drain_timeout", doc: "How long running tasks may take to finish when the node stops. Then they are cancelled and handed back.", def: "30s", is: period(aDuration, false), at: in(func(n *Node) *time.Duration { return &n.DrainTimeout })},
	{name: "strict_handlers", doc: "Whether the node refuses to start if a plugin does not start. Otherwise the node starts, reports that the handler is down, and tries again to start it; the tasks of its types wait.", def: "false", is: boolean(), at: in(func(n *Node) *bool { return &n.StrictHandlers })},
	{name: "log", doc: "The log of the node.", is: logTable, at: in(func(n *Node) *Log { return &n.Log })},
}}

var logTable = &object{fields: []field{
	{name: "level", doc: "The lowest level to log.", def: "info", is: oneOf(nil, option[slog.Level]{"debug", slog.LevelDebug}, option[slog.Level]{"info", slog.LevelInfo}, option[slog.Level]{"warn", slog.LevelWarn}, option[slog.Level]{"error", slog.LevelError}), at: in(func(l *Log) *slog.Level { return &l.Level })},
	{name: "format", doc: "The format of a message: `auto` is `text` on a terminal and `json` elsewhere.", def: "auto", is: oneOf(nil, option[LogFormat]{"auto", LogAuto}, option[LogFormat]{"json", LogJSON}, option[LogFormat]{"text", LogText}), at: in(func(l *Log) *LogFormat { return &l.Format })},
}}

var storageTable = &object{fields: []field{
	{name: "driver", doc: "`pebble` and `bolt` are databases inside the node, `postgres` is a server. `memory` loses everything when the process ends; it uses none of the keys below.", def: "pebble", is: oneOf(nil, driverOptions()...), at: in(func(s *Storage) *Driver { return &s.Driver })},
	{name: "path", doc: "The directory of `pebble` or `bolt`. The node creates it if it does not exist.", def: "./data", holds: func(c *Config) bool { return c.Storage.Driver != Postgres }, is: words("a path", notEmpty), at: in(func(s *Storage) *string { return &s.Path })},
	{name: "url", doc: "The database of `postgres`, for which it is required. Its password is never printed. Keep the whole URL in an environment variable or a file, and write a reference.", otherwise: "none", is: databaseURL{}, at: in(func(s *Storage) *Text { return &s.URL })},
	{name: "databases", doc: "Further databases of `postgres`, by name. Each of them, and the database of `url`, which is called `main`, holds a part of the tasks. `taskengine shards` lists and moves these parts.", otherwise: "none, `url` holds all", is: table[Text]{of: "databases", keys: isPartName, likely: "NAME", is: databaseURL{}}, at: in(func(s *Storage) *map[string]Text { return &s.Databases })},
	{name: "schema", doc: "The schema of `postgres` for the tables, and for nothing else. `taskengine migrate apply` creates it.", def: "taskengine", holds: func(c *Config) bool { return c.Storage.Driver == Postgres }, is: words("a name", CheckSchemaName), at: in(func(s *Storage) *string { return &s.Schema })},
}}

var taskLogTable = &object{fields: []field{
	{name: "keep", doc: "Where the logs are: in files of the `node` that ran the task, or in the `store`, where they outlive the node and any node reads them.", def: "node", is: oneOf(nil, option[bool]{"node", false}, option[bool]{"store", true}), at: in(func(l *TaskLog) *bool { return &l.InStore })},
	{name: "path", doc: "The directory of the logs, unless the store has them. The node creates it if it does not exist. Each node needs its own. `memory` keeps logs in memory.", otherwise: "`task-logs` in `storage.path`, also with `postgres`: `./data/task-logs`", is: words("a path", notEmpty), at: in(func(l *TaskLog) *string { return &l.Path })},
	{name: "max_size", doc: "The size of the logs of all tasks together; the oldest lines are removed first. With the driver `memory` it is at most 16MiB. 0B keeps no logs.", def: "256MiB", is: orNothing(1<<20, size(0, 16<<30, "a size, such as 256MiB")), at: in(func(l *TaskLog) *int { return &l.MaxSize })},
	{name: "task_size", doc: "With `keep: store`, the size of the logs of one task, as stored; its oldest lines are removed first.", def: "4MiB", is: size(64<<10, 1<<30, "a size, such as 4MiB"), at: in(func(l *TaskLog) *int { return &l.TaskSize })},
	{name: "attempt_lines", doc: "The number of lines of one attempt of a task. Further lines are dropped, and a line says how many.", def: "10000", is: whole[int](1, maxCount, "a number"), at: in(func(l *TaskLog) *int { return &l.AttemptLines })},
	{name: "attempt_size", doc: "The size of the lines of one attempt, as stored.", def: "1MiB", is: size(16<<10, 1<<30, "a size, such as 1MiB"), at: in(func(l *TaskLog) *int { return &l.AttemptSize })},
}}

func listen(def string) field {
	return field{name: "listen", doc: "The address as host:port. `:port` is every interface; `none` does not listen.", def: def, is: address(), at: in(func(l *Listener) *string { return &l.Listen })}
}

var apiTable = &object{fields: []field{
	listen("127.0.0.1:7420"),
	{name: "socket", doc: "The path of a Unix socket, for clients on this machine, beside `listen`. The node creates it in a directory that exists, replaces one that an earlier process has left, and does not start if a process listens on it. Clients use the address `unix:PATH`.", otherwise: "none", is: words("a path, such as /run/taskengine/api.sock", checkSocket), at: in(func(l *Listener) *string { return &l.Socket })},
	{name: "socket_clients", doc: "The users that may connect to the socket: the user of the node (`owner`), or also its group (`group`), or every user of this machine (`all`).", def: "owner", is: oneOf(nil, option[fs.FileMode]{"owner", 0o600}, option[fs.FileMode]{"group", 0o660}, option[fs.FileMode]{"all", 0o666}), at: in(func(l *Listener) *fs.FileMode { return &l.Clients })},
	encrypted,
	{name: "tokens", doc: "A file with the tokens of clients, which `taskengine token create` makes and changes. Each client then needs a token that allows its requests, of this file or of the cluster (`taskengine token add`); clients on `socket` may do everything without one. The node reads the file again when it changes. See [Tokens](operations.md#tokens).", otherwise: "none, clients need no token", is: words("a file", notEmpty), at: in(func(l *Listener) *string { return &l.Tokens })},
	{name: "audit", doc: "A file to which the node appends a line for each request that changes tasks, keys, types, limits, schedules or alerts: the client, the names in the request, and the outcome. `log` writes these lines to the log of the node, at the level info. See [Audit](operations.md#audit).", otherwise: "none", is: words("a file, or log", notEmpty), at: in(func(l *Listener) *string { return &l.Audit })},
	{name: "advertise", doc: "The address at which the other nodes of the cluster reach the API, as host:port or a URL: they ask this node for what only it knows, such as logs of tasks and workers. `none` has no node ask it. See [One answer](operations.md#one-answer).", otherwise: "the host of `listen` or, if that is every interface, the name of the machine, with the port of `listen`", is: words("host:port, a URL such as https://node1.example.com:7420, or none", isAdvertised), at: in(func(l *Listener) *string { return &l.Advertise })},
	{name: "peer_tls", doc: "How the node connects to the APIs of other nodes that have `tls`. With `tls.client_ca`, nodes need a certificate as clients do.", otherwise: "the authorities that the system trusts, no certificate", is: tlsTable, at: in(func(l *Listener) *TLS { return &l.PeerTLS })},
	{name: "insecure", doc: "Whether the node starts although other machines can reach `listen` and clients need neither `tokens` nor a certificate (`tls.client_ca`). Only for a port that something else protects, such as a proxy with authentication.", def: "false", is: boolean(), at: in(func(l *Listener) *bool { return &l.Insecure })},
}}

var adminTable = &object{fields: []field{
	listen("127.0.0.1:7421"),
	{name: "token", doc: "The token that callers of `/backup` and `/debug/` must send as `Authorization: Bearer TOKEN`, at least 16 characters. Write a reference. With `api.tokens`, a token with the role `admin` for all types is enough, too. Without either, these paths answer callers on this machine, or no caller if a handler has a `user`. The other paths, such as `/readyz` and `/metrics`, need no token.", otherwise: "none", is: guarded{secret("a string of 16 or more characters", isToken), masked}, at: in(func(l *Listener) *Text { return &l.Token })},
	{name: "scaler", doc: "Whether the listener is an external scaler of KEDA, too, by which KEDA starts as many workers as the tasks of a type need. It needs no token, and gives the numbers of `/metrics`. See [Kubernetes](kubernetes.md#workers-that-keda-scales).", def: "false", is: boolean(), at: in(func(l *Listener) *bool { return &l.Scaler })},
	encrypted,
}}

// encrypted is the key of listeners for TLS.
var encrypted = field{name: "tls", doc: "Encrypts the connections with `listen`. The node looks at its files for each new connection, so they can be replaced while it runs. If they cannot be used, it logs that and keeps the previous ones.", otherwise: "not encrypted", is: serverTLSTable, at: in(func(l *Listener) *ServerTLS { return &l.TLS })}

var serverTLSTable = &object{what: "tls", fields: []field{
	{name: "cert", doc: "A file with the certificate of the node, in PEM, followed by the certificates that lead to its authority.", required: true, is: words("a file", notEmpty), at: in(func(t *ServerTLS) *string { return &t.Cert })},
	{name: "key", doc: "A file with the key of `cert`, in PEM.", required: true, is: words("a file", notEmpty), at: in(func(t *ServerTLS) *string { return &t.Key })},
	{name: "client_ca", doc: "A file with the certificates of authorities, in PEM: only clients that have a certificate of one of them can connect.", otherwise: "clients need no certificate", is: words("a file", notEmpty), at: in(func(t *ServerTLS) *string { return &t.ClientCA })},
}}

var tracingTable = &object{fields: []field{
	{name: "endpoint", doc: "The URL of the collector, which accepts OTLP over gRPC, such as `http://127.0.0.1:4317`. `https` encrypts the connection.", otherwise: "none", is: words("a URL, such as http://127.0.0.1:4317", isCollector), at: in(func(t *Tracing) *string { return &t.Endpoint })},
	{name: "sample", doc: "The share of the traces that begin at the node that is recorded. For other traces, the program that begins them decides.", def: "1", is: fraction(0, 1, "a number of 0 to 1"), at: in(func(t *Tracing) *float64 { return &t.Sample })},
}}

func retentionTable(ofType bool) *object {
	at := func(name, doc, def string, at func(*policy.Retention) *time.Duration) field {
		f := field{name: name, doc: doc, def: def, is: keeping(), at: in(at)}
		if ofType {
			f.def, f.otherwise = "", "`retention."+name+"` of the file"
		}
		return f
	}
	return &object{fields: []field{
		at("done", "How long a done task is kept. 0s removes it at once.", "7d", func(r *policy.Retention) *time.Duration { return &r.Done }),
		at("failed", "How long a failed (acknowledged) task is kept.", "30d", func(r *policy.Retention) *time.Duration { return &r.Failed }),
		at("cancelled", "How long a cancelled task is kept.", "7d", func(r *policy.Retention) *time.Duration { return &r.Cancelled }),
	}}
}

var limitsTable = table[policy.Limit]{
	of: "limits", keys: isName, likely: "NAME", is: limitTable,
	fresh: func(_ *decoder, key string) policy.Limit { return policy.Limit{Name: key} },
}

var limitTable = &object{what: "a limit", fields: []field{
	{name: "of", doc: "The parent limit.", otherwise: "none, it is the root of a tree", is: words("the name of a limit", notEmpty), at: in(func(l *policy.Limit) *string { return &l.Of })},
	{name: "max", doc: "How many tasks may run at once, each counted with its weight. 0 is no limit.", def: "0", is: whole[int](0, maxCount, "a number"), at: in(func(l *policy.Limit) *int { return &l.Max })},
	{name: "rate", doc: "How many tasks may start in a time, such as `20/1s`.", otherwise: "without limit", is: short{rateText(), rateTable}, at: in(func(l *policy.Limit) *policy.Rate { return &l.Rate })},
	{name: "per", doc: "Makes a separate limit for each value at this place: `payload.NAME` for a field of a JSON payload, `headers.NAME`, `key` or `ordering_key`. A task without a value there counts for the empty value.", otherwise: "one limit for all", is: words("a place, such as payload.partner or key", CheckPlace), at: in(func(l *policy.Limit) *string { return &l.Per })},
	{name: "scope", doc: "The tasks that `max` and `rate` count: the tasks of each `node` for itself, or the tasks of all nodes of the `cluster` together.", def: "node", is: oneOf(nil, option[bool]{"node", false}, option[bool]{"cluster", true}), at: in(func(l *policy.Limit) *bool { return &l.Cluster })},
	{name: "overrides", doc: "A different `max` for single values of `per`. A key with `*` at its end, such as `acme-*`, stands for all values that begin so. An exact value goes before patterns, and a longer pattern before a shorter one.", is: table[int]{of: "numbers", keys: policy.CheckOverride, likely: "VALUE", is: whole[int](0, maxCount, "a number")}, at: in(func(l *policy.Limit) *map[string]int { return &l.Overrides })},
	{name: "nodes", doc: "The nodes that may run the tasks of single values of `per`, in addition to `nodes` of their types: labels with their values, as there. The keys are like those of `overrides`. Only one limit of a type can have it.", is: table[policy.Nodes]{of: "nodes", keys: policy.CheckPlaced, likely: "VALUE", is: nodesOf{nodesTable}}, at: in(func(l *policy.Limit) *map[string]policy.Nodes { return &l.Nodes })},
	{name: "fair", doc: "Whether the values of `per` take turns. Otherwise tasks of the same priority start in the order in which they became ready, regardless of their values. Only for a limit that is the first of the `limits` of a type, or above that.", def: "false", is: boolean(), at: in(func(l *policy.Limit) *bool { return &l.Fair })},
	{name: "shares", doc: "The number of turns of single values of a fair limit, 1 to 1000. A value without a share has one turn. The keys are like those of `overrides`.", is: table[int]{of: "numbers", keys: policy.CheckShare, likely: "VALUE", is: whole[int](1, policy.LargestShare, "a number")}, at: in(func(l *policy.Limit) *map[string]int { return &l.Shares })},
}}

// nodesTable is the labels that a node must have.
var nodesTable = table[[]string]{of: "labels", keys: notEmpty, likely: "LABEL", is: sequence[string]{is: words("string", notEmpty), single: true, least: 1, most: 100}}

// nodesOf is nodesTable for a value of the type policy.Nodes.
type nodesOf struct{ table[[]string] }

func (n nodesOf) decode(d *decoder, at *node, into any) {
	n.table.decode(d, at, (*map[string][]string)(into.(*policy.Nodes)))
}

var rateTable = &object{what: "a rate", fields: []field{
	{name: "count", doc: "The number of starts.", required: true, is: whole[int](1, maxCount, "a number"), at: in(func(r *policy.Rate) *int { return &r.Count })},
	{name: "per", doc: "The time for that number.", required: true, is: period("a duration, such as 1s", true), at: in(func(r *policy.Rate) *time.Duration { return &r.Per })},
	{name: "burst", doc: "How many starts are allowed at once after a pause.", otherwise: "`count`", is: whole[int](1, maxCount, "a number"), at: in(func(r *policy.Rate) *int { return &r.Burst })},
}}

var typesTable = table[Type]{
	of: "types", keys: isType, likely: "TYPE", is: typeTable,
	fresh: func(d *decoder, key string) Type {
		t := Type{Handler: key, Type: policy.DefaultType()}
		t.Retention = d.cfg.Retention
		return t
	},
}

var typeTable = &object{what: "a type", fields: []field{
	{name: "handler", doc: "The handler, of `handlers`, that runs the tasks.", otherwise: "the handler of the same name", is: words("the name of a handler", notEmpty), at: in(func(t *Type) *string { return &t.Handler })},
	{name: "concurrency", doc: "How many slots the tasks of the type may use at once on a node. 0 is no limit.", def: "0", is: whole[int](0, maxCount, "a number"), at: in(func(t *Type) *int { return &t.Concurrency })},
	{name: "weight", doc: "How many slots one task takes, of the node and of every limit of the type.", def: "1", is: whole[int](1, maxCount, "a number"), at: in(func(t *Type) *int { return &t.Weight })},
	{name: "priority", doc: "The priority of tasks submitted without one: 0 runs first, 9 last.", def: "5", is: whole[uint8](int64(task.HighestPriority), int64(task.LowestPriority), "a number"), at: in(func(t *Type) *uint8 { return &t.Priority })},
	{name: "ageing", doc: "The worth of one level of priority: a task that is one level lower starts first if it has been ready for longer by more than this time. 0s is no ageing: a better priority always starts first.", def: "0s", is: period(aDuration, false), at: in(func(t *Type) *time.Duration { return &t.Ageing })},
	{name: "delivery", doc: "What happens to a task without an answer, because its node or handler died, it took too long, or a request was lost. `at_least_once` runs it again, so its handler must tolerate repetition. `at_most_once` makes it an error, which an operator resolves; an error that its handler reports as one is retried by the policy in both cases. [Handlers](handlers.md#what-a-handler-may-answer) lists these errors: in Python, Node.js and Java only exceptions of the package are.", def: "at_least_once", is: oneOf(map[string]string{"exactly_once": "what no engine can promise about the outside world"}, option[policy.Delivery]{"at_least_once", policy.AtLeastOnce}, option[policy.Delivery]{"at_most_once", policy.AtMostOnce}), at: in(func(t *Type) *policy.Delivery { return &t.Delivery })},
	{name: "relaxed", doc: "Starts a task before the start is durable, which is faster. Only the storage `pebble` does so; with others every start is durable first. A crash can lose the start of a run, but never a task or its end. The same version of the task then runs again, so the version is not a fencing token: it does not distinguish the two runs. Not allowed with `at_most_once`.", def: "false", is: boolean(), at: in(func(t *Type) *bool { return &t.Relaxed })},
	{name: "limits", doc: "The limits that count the tasks. The first is their place in a tree; the others cut across the trees.", otherwise: "none", is: sequence[string]{is: words("the name of a limit", notEmpty), single: true, most: 16}, at: in(func(t *Type) *[]string { return &t.Limits })},
	{name: "nodes", doc: "The nodes that may run the tasks: nodes with each of these labels, see `coordination.labels`, and with this value or one of a list of values. `name` is the name of the node, `node.name`.", otherwise: "all nodes", is: nodesTable, at: in(func(t *Type) *map[string][]string { return (*map[string][]string)(&t.Nodes) })},
	{name: "timeout", doc: "The timeouts of a task.", is: timeoutTable, at: in(func(t *Type) *policy.Timeout { return &t.Timeout })},
	{name: "retry", doc: "Whether and when another attempt follows a failed one.", is: retryTable, at: in(func(t *Type) *policy.Retry { return &t.Retry })},
	{name: "retention", doc: "How long finished tasks are kept.", is: retentionTable(true), at: in(func(t *Type) *policy.Retention { return &t.Retention })},
	{name: "max_payload", doc: "The largest payload; larger payloads are refused.", def: "1MiB", is: size(0, policy.LargestPayload, "a size, such as 64KiB"), at: in(func(t *Type) *int { return &t.MaxPayload })},
	{name: "max_result", doc: "The largest result of a task, at most 64MiB. A larger result is lost: the task becomes an error that says so, and is not tried again.", def: "1MiB", is: size(1, policy.LargestResult, "a size, such as 64KiB"), at: in(func(t *Type) *int { return &t.MaxResult })},
	{name: "max_lateness", doc: "How far in the past the time of a request may lie, such as `30s`. A request with an earlier time adds no task: it is refused. 0s is no limit: the task runs at once. See [Late requests](#late-requests).", def: "0s", is: period(aDuration, false), at: in(func(t *Type) *time.Duration { return &t.MaxLateness })},
	{name: "max_backlog", doc: "The maximum number of tasks that are waiting or submitted, such as `100000`, or `{max: 100000, when_full: drop_oldest}`. Tasks that wait for their next attempt count. 0 is no limit.", def: "0", is: short{backlogMax(), backlogTable}, at: in(func(t *Type) *policy.Backlog { return &t.MaxBacklog })},
	{name: "ordering", doc: "The effect of a task with an ordering key on the tasks behind it. Tasks of the same ordering key run one at a time. See [Ordering](#ordering).", is: orderingTable, at: in(func(t *Type) *policy.Ordering { return &t.Ordering })},
	{name: "unique", doc: "The effect of a request if another task of the type has its key. See [Unique keys](#unique-keys).", is: uniqueTable, at: in(func(t *Type) *policy.Unique { return &t.Unique })},
	{name: "redact", doc: "Places with values that callers of the API only see with the role `reveal`: `payload.NAME` for a field of a JSON payload, `result.NAME`, `checkpoint.NAME` or `headers.NAME`, such as `payload.card.number`; `payload` is the whole. See [What a token shows](operations.md#what-a-token-shows).", otherwise: "none", is: sequence[string]{is: words("a place, such as payload.card.number", isRedactable), single: true, most: 64}, at: in(func(t *Type) *[]string { return &t.Redact })},
	{name: "search", doc: "Places of which an index finds the values: `payload.NAME` for a field of a JSON payload, such as `payload.customer.id`, or `headers.NAME`. Tasks that are in the store before have no values in the index: lists read them as without it. See [Search attributes](operations.md#search-attributes).", otherwise: "none", is: sequence[string]{is: words("a place, such as payload.customer.id", isSearchable), single: true, most: policy.MaxSearch}, at: in(func(t *Type) *[]string { return &t.Search })},
	{name: "max_crashes", doc: "After this number of crashed attempts in a row, a task becomes an error. 0 is never.", def: "5", is: whole[uint32](0, maxCount, "a number"), at: in(func(t *Type) *uint32 { return &t.MaxCrashes })},
	{name: "paused", doc: "Whether the type starts paused: its tasks are accepted and wait.", def: "false", is: boolean(), at: in(func(t *Type) *bool { return &t.Paused })},
}}

var backlogTable = &object{what: "max_backlog", fields: []field{
	{name: "max", doc: "The number of tasks. 0 is no limit.", required: true, is: whole[int](0, maxCount, "a number"), at: in(func(b *policy.Backlog) *int { return &b.Max })},
	{name: "when_full", doc: "The effect of requests that would exceed `max`. `reject` refuses to add them. `drop_oldest` cancels the tasks that have been ready for the longest time, regardless of their priority, and adds the new ones. It never cancels a task that has started before. If not enough tasks can be cancelled, it refuses the new ones. `pause_source` makes callers and sources wait for room, see [Backlogs](operations.md#backlogs).", def: "reject", is: oneOf(nil, option[policy.WhenFull]{"reject", policy.Reject}, option[policy.WhenFull]{"drop_oldest", policy.DropOldest}, option[policy.WhenFull]{"pause_source", policy.PauseSource}), at: in(func(b *policy.Backlog) *policy.WhenFull { return &b.WhenFull })},
}}

var orderingTable = &object{what: "ordering", fields: []field{
	{name: "on_exhausted", doc: "The effect of an error of a task. `halt` stops its ordering key: the tasks behind it wait until an operator resumes, fails or cancels the task. `continue` runs them.", def: "halt", is: oneOf(nil, option[policy.OnExhausted]{"halt", policy.Halt}, option[policy.OnExhausted]{"continue", policy.Continue}), at: in(func(o *policy.Ordering) *policy.OnExhausted { return &o.OnExhausted })},
	{name: "on_retry", doc: "The place of a task that waits for its next attempt. `block` keeps its place: the tasks behind it wait. `yield` gives up its place: tasks that become ready before its next attempt run before it.", def: "block", is: oneOf(nil, option[policy.OnRetry]{"block", policy.Block}, option[policy.OnRetry]{"yield", policy.Yield}), at: in(func(o *policy.Ordering) *policy.OnRetry { return &o.OnRetry })},
	{name: "inherit", doc: "Whether a task that is ready runs with the highest priority of the ready tasks behind it, if that is higher than its own. Tasks behind it count if their types inherit, too. See [Ordering](#ordering).", def: "false", is: boolean(), at: in(func(o *policy.Ordering) *bool { return &o.Inherit })},
}}

var uniqueTable = &object{what: "unique", fields: []field{
	{name: "window", doc: "For `on_conflict: throttle`, which needs it: how long after the creation of a task no other one with its key is added, such as `1h`.", otherwise: "none", is: period(aDuration, true), at: in(func(u *policy.Unique) *time.Duration { return &u.Window })},
	{name: "remember", doc: "For how long the key of a task is taken after the task was done, such as `14d`, if that is longer than `retention.done`. Then only the key is kept: payload, result and the like are removed when the retention is over. Keys of failed and cancelled tasks are not remembered. 0s is as long as the task is kept.", def: "0s", is: period(aDuration, false), at: in(func(u *policy.Unique) *time.Duration { return &u.Remember })},
	{name: "by", doc: "The places with the values that make the key of a request without a key: `payload.NAME` for a field of a JSON payload, `headers.NAME` or `ordering_key`. `key`, as the first, is the key that a request has. A request that has neither a key nor all of these values is refused.", otherwise: "such a request has no key", is: sequence[string]{is: words("a place, such as payload.order", CheckPlace), single: true, most: 16}, at: in(func(u *policy.Unique) *[]string { return &u.By })},
	{name: "on_conflict", doc: "The effect of a request with a taken key. `keep` adds nothing, and answers with the task that has the key. `reject` is an error. `replace` gives a task that has not begun the payload, headers, priority and expiry of the request. `debounce` does the same, and gives it the time of the request, too. `throttle` adds a task if the task that has the key has ended and was created longer ago than `window`, and otherwise has the effect of `keep`.", def: "keep", is: oneOf(nil, option[policy.OnConflict]{"keep", policy.KeepExisting}, option[policy.OnConflict]{"reject", policy.RejectNew}, option[policy.OnConflict]{"replace", policy.ReplaceExisting}, option[policy.OnConflict]{"debounce", policy.DebounceExisting}, option[policy.OnConflict]{"throttle", policy.ThrottleNew}), at: in(func(u *policy.Unique) *policy.OnConflict { return &u.OnConflict })},
}}

var timeoutTable = &object{what: "timeout", fields: []field{
	{name: "run", doc: "The longest time of one attempt; then it is cancelled. 0s is no limit, here and below.", def: "1h", is: period(aDuration, false), at: in(func(t *policy.Timeout) *time.Duration { return &t.Run })},
	{name: "grace", doc: "The shortest time from the cancellation until the attempt is abandoned.", def: "10s", is: period(aDuration, false), at: in(func(t *policy.Timeout) *time.Duration { return &t.Grace })},
	{name: "queue", doc: "The longest time from being ready to being started; then the task becomes an error.", def: "0s", is: period(aDuration, false), at: in(func(t *policy.Timeout) *time.Duration { return &t.Queue })},
	{name: "total", doc: "The longest time from the submit to the end; then the task becomes an error.", def: "0s", is: period(aDuration, false), at: in(func(t *policy.Timeout) *time.Duration { return &t.Total })},
}}

var retryTable = &object{what: "retry", fields: []field{
	{name: "max", doc: "The number of attempts, including the first. With `forever` a task is tried again until it succeeds, is cancelled, expires, has an error that is permanent or `never` retried, or becomes an error by `max_crashes` or `at_most_once`.", def: "10", is: tries(), at: in(func(r *policy.Retry) *int { return &r.Max })},
	{name: "backoff", doc: "How long to wait between two attempts; `none` is no wait.", def: "{exponential: {initial: 1s, factor: 2, max: 1h}, jitter: 0.2}", is: short{word("none", policy.Backoff{Kind: policy.None}, "{fixed: [1s, 10s]}"), backoffTable}, at: in(func(r *policy.Retry) *policy.Backoff { return &r.Backoff })},
	{name: "on", doc: "Exceptions for classes of errors, which handlers set: `never` does not retry.", is: table[policy.Rule]{of: "rules", keys: isName, likely: "CLASS", is: short{word("never", policy.Rule{Never: true}, "{delay: 1h}"), ruleTable}}, at: in(func(r *policy.Retry) *map[string]policy.Rule { return &r.On })},
	{name: "then", doc: "The end of a task without another attempt, because it has failed `max` times, an error is permanent or `never` retried, or there is no time for another attempt before it expires. `error` waits for an operator. `failed` ends the task: its parent goes on, and a step of a workflow has failed. A task becomes an error all the same by `max_crashes`, and by `at_most_once` if it may have taken effect.", def: "error", is: oneOf(nil, option[bool]{"error", false}, option[bool]{"failed", true}), at: in(func(r *policy.Retry) *bool { return &r.Fails })},
}}

var ruleTable = &object{what: "a rule", fields: []field{
	{name: "delay", doc: "The delay, instead of that of the backoff.", required: true, is: period("a duration, such as 1h", false), at: in(func(r *policy.Rule) *time.Duration { r.Delay = new(time.Duration); return r.Delay })},
}}

var backoffTable = &object{what: "backoff", rivals: [][]string{{"exponential", "linear", "fixed"}}, fields: []field{
	{name: "exponential", doc: "Each delay is a multiple of the delay before.", is: exponentialTable, at: backoffOf(policy.Exponential)},
	{name: "linear", doc: "Each delay is one step longer than the delay before.", is: linearTable, at: backoffOf(policy.Linear)},
	{name: "fixed", doc: "A list of delays; the last one repeats.", is: delaysShape, at: backoffOf(policy.Fixed)},
	{name: "jitter", doc: "The random share of a delay, distributed evenly around it.", def: "0.2", is: fraction(0, 1, "a number of 0 to 1"), at: in(func(b *policy.Backoff) *float64 { return &b.Jitter })},
}}

var exponentialTable = &object{what: "exponential", fields: []field{
	{name: "initial", doc: "The first delay.", def: "1s", is: period(aDuration, false), at: in(func(b *policy.Backoff) *time.Duration { return &b.Initial })},
	{name: "factor", doc: "The factor from one delay to the next.", def: "2", is: fraction(1, 1000, "a number of 1 or more"), at: in(func(b *policy.Backoff) *float64 { return &b.Factor })},
	{name: "max", doc: "The longest delay.", def: "1h", is: period(aDuration, true), at: in(func(b *policy.Backoff) *time.Duration { return &b.Max })},
}}

var linearTable = &object{what: "linear", fields: []field{
	{name: "step", doc: "The first delay, and the difference from one delay to the next.", required: true, is: period(aDuration, true), at: in(func(b *policy.Backoff) *time.Duration { return &b.Initial })},
	{name: "max", doc: "The longest delay.", def: "1h", is: period(aDuration, true), at: in(func(b *policy.Backoff) *time.Duration { return &b.Max })},
}}

var errNotEmpty = errors.New("is empty; write something or remove the key")

func notEmpty(s string) error {
	if s == "" {
		return errNotEmpty
	}
	return nil
}

// isType accepts the name of a type of the user.
func isType(s string) error {
	if strings.HasPrefix(s, task.ReservedTypes) {
		return fmt.Errorf("is reserved: types that begin with %s belong to the engine", task.ReservedTypes)
	}
	return isName(s)
}

// isName accepts names that need no quotes in a path, a label and a command.
func isName(s string) error {
	const longest = 100
	if s == "" || len(s) > longest {
		return fmt.Errorf("is not a name; use 1 to %d characters", longest)
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
		if !letter && (i == 0 || r != '.' && r != '-') {
			return fmt.Errorf("is not a name, because of %q; use letters, digits, and after the first also . _ -", r)
		}
	}
	return nil
}
