package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/policy"
)

// Config says how a [Host] runs its program. Name and Command are required. The zero value of every other field is a
// default.
type Config struct {
	Name    string   // of the handler, in logs, errors and metrics
	Command []string // the program and its arguments, without a shell
	Dir     string   // working directory of the program; "" for that of the node

	// Env is the whole environment of the program. "NAME=value" sets a variable. "NAME" passes the node's variable on, if
	// it is set. Nil is [DefaultEnv]; empty but not nil is no environment.
	Env []string

	Slots      int // tasks at once in one process, 0..65536; 0 leaves it to the program
	MaxResult  int // largest result in bytes; default [policy.DefaultMaxResult]
	MaxPayload int // largest payload in bytes that a task may be given to run again; default [policy.DefaultMaxPayload]

	// MayWrite are the keys of the documents that the program may read and write, and MayRead those of more that it may read. A key that
	// ends with * stands for all that begin with the text before it.
	MayRead, MayWrite []string

	// MinProcesses is how many processes there always are: default 1, negative for none. While tasks find no slot there are
	// more, up to MaxProcesses: default 1, at least MinProcesses. A process beyond MinProcesses ends after it was idle for
	// Idle, default 30 s.
	MinProcesses, MaxProcesses int
	Idle                       time.Duration

	// A process is replaced, after another is up, when it was sent MaxTasks tasks, has lived for MaxAge, or holds more than
	// MaxRSS bytes of memory (on Linux). 0 is never.
	MaxTasks int
	MaxAge   time.Duration
	MaxRSS   int64

	// PerTask runs each task in a process of its own, which ends with it. MinProcesses are then started ahead. Slots and
	// MaxTasks are ignored.
	PerTask bool

	// Types are types that the program must serve. The first start fails if it does not serve all of them.
	Types []string

	// Turns bound how many programs of all hosts that share them are started at a time; nil is no bound. StartTimeout is
	// counted from the turn of the program.
	Turns *Turns

	StartTimeout time.Duration // from the start of the process to its hello; default 10 s
	Grace        time.Duration // from cancelling a task to SIGTERM for its process; default 10 s
	KillAfter    time.Duration // from SIGTERM to SIGKILL; default 2 s

	// Liveness is how long the process may leave pings unanswered before it is killed. It does not limit tasks. Default
	// 1 min, negative for no limit.
	Liveness time.Duration

	Backoff    time.Duration // pause after the first crash, doubled with each further crash in a row; default 50 ms
	MaxBackoff time.Duration // the longest pause; default 30 s

	User   string            // name or number of the user that the program runs as; "" is the user of the node. Needs root.
	SHA256 map[string]string // files and their SHA-256 in hex: no process is started if one differs
	Limits Limits            // of each process

	Logger *slog.Logger // of the host and the output of the program; nil for none
	Host   string       // name and version of this host, sent to the program
}

// Limits bound the resources of one process of a handler together with all processes that it starts. Zero is no limit.
// They need Linux with cgroup v2 and a node that may create control groups below its own: it runs as root, or under
// systemd with Delegate=yes. Otherwise the handler runs without limits, and [Status] says so.
type Limits struct {
	Memory    int64   // bytes; the kernel kills a process that needs more
	CPU       float64 // cores; the kernel throttles a process that needs more
	Processes int     // processes and threads; starting more fails
}

// DefaultEnv returns the names of the node's variables that a program gets by default: search paths, directories, and
// the settings of language and time zone.
func DefaultEnv() []string {
	return []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"}
}

const (
	maxProcesses = 1000
	pingsPerLife = 4 // pings in one Liveness
)

// withDefaults returns c with its defaults filled in, or an error with everything that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		complain("the handler has no name")
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		complain("no command is given: name the program that serves the handler")
	}
	if c.Slots < 0 || c.Slots > dispatch.MaxSlots {
		complain("slots is %d: give 0 to %d", c.Slots, dispatch.MaxSlots)
	}
	if c.MaxResult < 0 {
		complain("the largest result has %d bytes: give 0 (default) or more", c.MaxResult)
	}
	if c.MaxPayload < 0 {
		complain("the largest payload has %d bytes: give 0 (default) or more", c.MaxPayload)
	}
	if c.MaxProcesses < 0 || c.MaxProcesses > 0 && c.MinProcesses > c.MaxProcesses || c.MinProcesses > maxProcesses || c.MaxProcesses > maxProcesses {
		complain("there are to be %d to %d processes: give a least of at most %d and a most that is not below it",
			c.MinProcesses, c.MaxProcesses, maxProcesses)
	}
	if c.MaxTasks < 0 || c.MaxRSS < 0 {
		complain("processes cannot be replaced after %d tasks or at %d bytes: give 0 (never) or more", c.MaxTasks, c.MaxRSS)
	}
	if l := c.Limits; l.Memory < 0 || l.Processes < 0 || !(l.CPU >= 0 && l.CPU < 1e6) {
		complain("the limits are %d bytes, %v cores and %d processes: give 0 (none) or more", l.Memory, l.CPU, l.Processes)
	}
	for _, path := range slices.Sorted(maps.Keys(c.SHA256)) {
		if sum, err := hex.DecodeString(c.SHA256[path]); err != nil || len(sum) != sha256.Size {
			complain("the SHA-256 of %s is %q: give %d hexadecimal digits", path, c.SHA256[path], 2*sha256.Size)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"start timeout", c.StartTimeout},
		{"grace", c.Grace},
		{"kill delay", c.KillAfter},
		{"backoff", c.Backoff},
		{"longest backoff", c.MaxBackoff},
		{"idle time", c.Idle},
		{"largest age", c.MaxAge},
	} {
		if d.value < 0 {
			complain("the %s is %v: give 0 (default) or more", d.name, d.value)
		}
	}
	for _, v := range c.Env {
		if name, _, _ := strings.Cut(v, "="); name == "" {
			complain("%q in the environment: give NAME or NAME=value", v)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return c, fmt.Errorf("plugins: handler %q: %w", c.Name, err)
	}
	defaultTo(&c.MaxResult, policy.DefaultMaxResult)
	defaultTo(&c.MaxPayload, policy.DefaultMaxPayload)
	defaultTo(&c.MinProcesses, 1)
	c.MinProcesses = max(0, c.MinProcesses)
	defaultTo(&c.MaxProcesses, max(1, c.MinProcesses))
	defaultTo(&c.Idle, 30*time.Second)
	if c.PerTask {
		c.Slots = 1
	}
	defaultTo(&c.StartTimeout, 10*time.Second)
	defaultTo(&c.Grace, 10*time.Second)
	defaultTo(&c.KillAfter, 2*time.Second)
	defaultTo(&c.Liveness, time.Minute)
	defaultTo(&c.Backoff, 50*time.Millisecond)
	defaultTo(&c.MaxBackoff, 30*time.Second)
	if c.Env == nil {
		c.Env = DefaultEnv()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func defaultTo[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// pool returns the pool for the processes.
func (c *Config) pool() pool {
	return pool{least: c.MinProcesses, most: c.MaxProcesses, atOnce: max(maxAlone, c.MaxProcesses), idle: c.Idle, perTask: c.PerTask}
}

// environ returns the environment of the program. It is resolved at each start.
func (c Config) environ() []string {
	env := make([]string, 0, len(c.Env))
	for _, v := range c.Env {
		if strings.Contains(v, "=") {
			env = append(env, v)
		} else if value, ok := os.LookupEnv(v); ok {
			env = append(env, v+"="+value)
		}
	}
	return env
}
