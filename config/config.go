package config

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/workflow"
)

// Config is the configuration of a node. Load returns it complete: with defaults, with references
// resolved, and with paths that are absolute or relative to the working folder.
type Config struct {
	Node    Node
	Storage Storage
	TaskLog TaskLog

	Coordination Coordination
	Bus          Bus

	API       Listener
	UI        UI
	Admin     Listener
	Tracing   Tracing
	Encoding  Encoding
	Kafka     map[string]Kafka
	Handlers  map[string]Handler
	Retention policy.Retention // of types without their own
	Limits    map[string]policy.Limit
	Types     map[string]Type
	Alerts    Alerts
	On        map[string]Hook
	Schedules map[string]schedule.Definition
	Workflows map[string]*workflow.Definition
	Sources   map[string]Source

	tree *node // of the file, for String and for the places of problems
}

// Node is this process.
type Node struct {
	Name         string // "" for the name of the host
	Slots        int    // how many tasks may run at once, by weight; 0 is without limit
	DrainTimeout time.Duration
	Log          Log

	StrictHandlers bool // do not start unless every plugin does
}

// Log is the level and format of the log.
type Log struct {
	Level  slog.Level
	Format LogFormat
}

// LogFormat is how a line of the log looks.
type LogFormat uint8

// The formats.
const (
	LogAuto LogFormat = iota // LogText on a terminal, otherwise LogJSON
	LogJSON
	LogText
)

// Driver names a storage backend.
type Driver uint8

// The drivers of this build.
const (
	Pebble Driver = iota
	Bolt
	Memory // keeps nothing after the process
	Postgres
)

// driverOptions returns the drivers with their names in a configuration.
func driverOptions() []option[Driver] {
	return []option[Driver]{{"pebble", Pebble}, {"bolt", Bolt}, {"memory", Memory}, {"postgres", Postgres}}
}

// String returns the name of the driver in a configuration.
func (d Driver) String() string {
	for _, o := range driverOptions() {
		if o.is == d {
			return o.word
		}
	}
	return fmt.Sprintf("Driver(%d)", uint8(d))
}

// InFiles reports whether a store of the driver is a folder of this machine.
func (d Driver) InFiles() bool { return d == Pebble || d == Bolt }

// Storage is where tasks are kept.
type Storage struct {
	Driver    Driver
	Path      string          // of a folder; Memory does not use it, and for Postgres it is ""
	URL       Text            // of the database, for Postgres
	Databases map[string]Text // more databases, by name
	Schema    string          // of the tables in Postgres
}

// The drivers of coordination and bus.
const (
	Local     = "local"    // for a single node
	Database  = "postgres" // by the database of the storage
	Etcd      = "etcd"
	ZooKeeper = "zookeeper"
	GUID      = "guid"  // of roles alone
	KafkaBus  = "kafka" // of the bus alone
)

// How a user proves itself to ZooKeeper.
const (
	Digest = "digest" // by its password, as it is
	SASL   = "sasl"   // by SASL and DIGEST-MD5
)

// Coordination is how nodes coordinate.
type Coordination struct {
	Driver    string        // Local, Database, Etcd or ZooKeeper; "" is chosen by the storage
	Endpoints []string      // of etcd or ZooKeeper, as host:port
	Prefix    string        // of all keys in etcd or ZooKeeper, without a slash at either end
	Lease     time.Duration // how long a node counts as alive without a heartbeat
	User      string        // of etcd or ZooKeeper; "": no authentication
	Password  Text
	Auth      string // Digest or SASL, of ZooKeeper; "" is Digest
	TLS       TLS    // of the connections with etcd or ZooKeeper
	Roles     string // GUID: elected by messages; "": by the driver
	Labels    map[string]string
}

// IsExternal reports whether the nodes coordinate by a coordinator that is no database.
func (c Coordination) IsExternal() bool { return c.Driver == Etcd || c.Driver == ZooKeeper }

// TLS is how connections with a coordinator are encrypted.
type TLS struct {
	CA         string // file of the certificates that are trusted, or SystemCA; "": connections are not encrypted
	Cert, Key  string // files of the client's certificate and its key; "": it has none
	ServerName string // that the server's certificate must have; "" is the host of the endpoint
}

// SystemCA as [TLS].CA trusts the certificates that the system trusts.
const SystemCA = "system"

// Bus is how nodes notify each other of ready tasks.
type Bus struct {
	Driver string // Local, Database or KafkaBus; "" is chosen by the storage
	Listen Text   // URL of a database for LISTEN; "" is the storage's, "none" is none

	// For KafkaBus.
	Connection   string
	Topic        string
	CreateTopics bool // Topic is created if it is missing,
	Partitions   int  // with so many
}

// TaskLog is how much is kept of the logs of tasks.
type TaskLog struct {
	InStore      bool   // they are in the store, and not in files of this node
	Path         string // of a folder; Memory and InStore do not use it
	MaxSize      int    // bytes of all tasks; 0 keeps nothing
	TaskSize     int    // bytes of one task; files do not use it
	AttemptLines int
	AttemptSize  int // bytes
}

// Listener is an address to listen on.
type Listener struct {
	Listen  string      // host:port; "" to not listen
	Token   Text        // of the admin listener: the token for its private paths; "" is none
	Scaler  bool        // of the admin listener: KEDA asks it
	Socket  string      // of the API: the path of a Unix socket beside Listen; "" is none
	Clients fs.FileMode // of the API: the permissions of Socket
	TLS     ServerTLS   // of the connections with Listen
	Tokens  string      // of the API: the file of the tokens of clients; "": clients need none

	Advertise string // of the API: its address for other nodes, a URL or host:port; "": by Listen; AdvertiseNone: none
	PeerTLS   TLS    // of the API: of connections with the APIs of other nodes; the zero value trusts SystemCA

	Audit    string // of the API: the file of audit lines, or AuditInLog; "": there are none
	Insecure bool   // of the API: other machines may reach it although clients need not authenticate
}

// AuditInLog as [Listener].Audit has audit lines in the log of the node.
const AuditInLog = "log"

// AdvertiseNone as [Listener].Advertise has no other node ask this one.
const AdvertiseNone = "none"

// AsksClients reports whether all clients need a token or a certificate.
func (l Listener) AsksClients() bool { return l.Tokens != "" || l.TLS.ClientCA != "" }

// ServerTLS is how connections with a listener are encrypted. The zero value is not at all.
type ServerTLS struct {
	Cert, Key string // files of the certificate of the node and its key
	ClientCA  string // file of the authorities that sign client certificates; "": clients need no certificate
}

// Tracing is where spans of tasks are sent.
type Tracing struct {
	Endpoint string  // URL of a collector; "" sends none
	Sample   float64 // share of the traces that begin here
}

// Handler is how the tasks of some types are run. Exactly one field is set.
type Handler struct {
	Plugin *Plugin
	Exec   *Exec
	HTTP   *HTTP
	Kafka  *Topic
	Remote *Remote
	Split  map[string]int // the handlers that share the tasks, with their weights; nil if the handler is not a split
}

// Plugin is a process that runs many tasks.
type Plugin struct {
	Command      []string
	Dir          string
	Slots        int // how many tasks it runs at once
	Env          map[string]Text
	PassEnv      []string
	StartTimeout time.Duration
	Grace        time.Duration
	Liveness     time.Duration // or LivenessOff

	Processes Processes
	PerTask   bool // each task has a process of its own
	Replace   Replace
	User      string            // the user it runs as; "" is the node's user
	SHA256    map[string]string // the checksum of each file that is pinned
	Limits    Limits
	Documents Documents
}

// Documents are the keys of the documents that the programs of a handler may use. One that ends with * stands for all that begin with the
// text before it.
type Documents struct {
	MayRead  []string // beside those of MayWrite
	MayWrite []string // these may be read, too
}

// Remote is programs that connect to the node by themselves.
type Remote struct {
	Slots     int // how many tasks each runs at once; 0 leaves it to the program
	Labels    map[string]string
	Reconnect time.Duration
	Liveness  time.Duration
	Grace     time.Duration
	Documents Documents
}

// Processes is how many processes a plugin has.
type Processes struct {
	Min, Max int
	Idle     time.Duration // how long a process beyond Min may be idle
}

// Replace says when a process of a plugin is replaced by a new one; 0 is never.
type Replace struct {
	Tasks int           // after this number of tasks
	Age   time.Duration // after this time
	RSS   int           // when it uses more bytes of memory
}

// Limits bound the resources of one process of a plugin; 0 is no limit.
type Limits struct {
	Memory    int     // bytes
	CPU       float64 // cores
	Processes int     // and threads
}

// Payload is how a command receives the payload of a task.
type Payload uint8

// The ways.
const (
	PayloadStdin    Payload = iota
	PayloadArgs             // a JSON list of strings, appended to the command
	PayloadEnvelope         // a part of the document that describes the task
)

// Exec is a command that runs once for each attempt.
type Exec struct {
	Command   []string
	Payload   Payload
	Dir       string
	Env       map[string]Text
	PassEnv   []string
	MaxOutput int // bytes
	MaxAnswer int // bytes
	MayAdd    []string
	MaySignal []string
	MayWrite  []string
	Grace     time.Duration
	User      string
	Limits    Limits
}

// HTTP is a request that is sent for each attempt.
type HTTP struct {
	URL         Text
	Method      string
	Headers     map[string]Text
	Timeout     time.Duration
	MaxResponse int // bytes
	Envelope    bool
	MayAdd      []string
	MaySignal   []string
	MayWrite    []string
}

// Type is the policy of the tasks of one type, and the handler that runs them.
type Type struct {
	Handler string
	Redact  []string // places such as payload.card.number
	policy.Type
}

// Policies returns the policies of the engine. The caller may change them.
func (c *Config) Policies() policy.Set {
	set := c.policies()
	c.limitSlices(&set)
	return set
}

// policies is Policies without the limits of sources.
func (c *Config) policies() policy.Set {
	types := make(map[string]policy.Type, len(c.Types))
	for name, t := range c.Types {
		types[name] = t.Type
	}
	return policy.Set{Slots: c.Node.Slots, Types: types, Limits: maps.Clone(c.Limits)}
}

// taskLogFolder is the folder of the logs of tasks, in the storage folder.
const taskLogFolder = "task-logs"

// Default returns the configuration of an empty file, with paths relative to the working folder.
func Default() *Config {
	return &Config{
		Node:         Node{Slots: 100, DrainTimeout: 30 * time.Second},
		Coordination: Coordination{Lease: 4 * time.Second, Prefix: "taskengine"},
		Bus:          Bus{Connection: usualConnection, Topic: "taskengine-hints", Partitions: 16},
		Storage:      Storage{Path: "data", Schema: "taskengine"},
		TaskLog:      TaskLog{Path: filepath.Join("data", taskLogFolder), MaxSize: 256 << 20, TaskSize: 4 << 20, AttemptLines: 10_000, AttemptSize: 1 << 20},
		API:          Listener{Listen: "127.0.0.1:7420", Clients: 0o600},
		Admin:        Listener{Listen: "127.0.0.1:7421"},
		Tracing:      Tracing{Sample: 1},
		Handlers:     map[string]Handler{},
		Retention:    policy.DefaultType().Retention,
		Limits:       map[string]policy.Limit{},
		Types:        map[string]Type{},
	}
}

func defaultPlugin() Plugin {
	return Plugin{
		Dir: ".", Slots: 8, StartTimeout: 10 * time.Second, Grace: 10 * time.Second, Liveness: time.Minute,
		Processes: Processes{Min: 1, Max: 1, Idle: 30 * time.Second},
	}
}

func defaultRemote() Remote {
	return Remote{Reconnect: 5 * time.Second, Liveness: 10 * time.Second, Grace: 10 * time.Second}
}

func defaultExec() Exec {
	return Exec{Dir: ".", MaxOutput: 64 << 10, MaxAnswer: 1 << 20, Grace: 10 * time.Second}
}

func defaultHTTP() HTTP {
	return HTTP{Method: "POST", Timeout: 10 * time.Second, MaxResponse: 64 << 10}
}
