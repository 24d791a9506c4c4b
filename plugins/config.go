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

	"github.com/taskengine/taskengine/engine/policy"
)

// Config says how a [Host] runs its program. Name and Command are needed; the zero
// value of every other field is a sensible default.
type Config struct {
	Name    string   // how people call the handler: in logs, errors and metrics
	Command []string // the program and its arguments; no shell is involved
	Dir     string   // the program's working directory; "" is the node's

	// Env is all the environment the program gets. "NAME=value" sets a variable, "NAME"
	// alone passes the node's on if there is one. Nil is [DefaultEnv]; empty but not nil
	// is none.
	Env []string

	Slots     int // tasks at once in one process, 0..65536; 0 leaves it to the handler
	MaxResult int // bytes of the largest result; default [policy.DefaultMaxResult]

	// Processes are how many there are of the program: MinProcesses always, default 1, and
	// none if negative; more while tasks find no slot, up to MaxProcesses, default 1 and at
	// least MinProcesses. One beyond the least ends after it had nothing to do for Idle,
	// default 30 s.
	MinProcesses, MaxProcesses int
	Idle                       time.Duration

	// A process is replaced, without a gap, after it was given MaxTasks tasks, has lived
	// for MaxAge, or holds more than MaxRSS bytes of memory (on Linux); 0 is never.
	MaxTasks int
	MaxAge   time.Duration
	MaxRSS   int64

	// PerTask gives each task a process of its own, which ends with it. MinProcesses are
	// then started ahead, and Slots and MaxTasks mean nothing.
	PerTask bool

	// Types are those that the program must serve to be taken for started the first time.
	Types []string

	// Turns bound how many programs start at a time, of all hosts that share them; nil is no
	// bound. The StartTimeout counts from a program's turn.
	Turns *Turns

	StartTimeout time.Duration // from starting the process to its hello; default 10 s
	Grace        time.Duration // from cancelling a task to SIGTERM for its process; default 10 s
	KillAfter    time.Duration // from SIGTERM to SIGKILL; default 2 s

	// Liveness is how long the process may be silent, though asked, before it is taken
	// for hung and killed. It is no limit for tasks. Default 1 min, negative is for ever.
	Liveness time.Duration

	Backoff    time.Duration // pause after the first crash; doubled with each further one; default 50 ms
	MaxBackoff time.Duration // the longest pause; default 30 s

	User   string            // as whom the program runs, by name or number; "" is the node's user. Needs root.
	SHA256 map[string]string // files, and the SHA-256 of each in hex, without which no process is started
	Limits Limits            // of each process

	Logger *slog.Logger // what the host and the program have to say; nil is nowhere
	Host   string       // name and version of this host, told to the handler
}

// Limits are what one process of a handler may use, with all that it starts. Zero is no
// limit. They need Linux with cgroup v2 and a node that may make control groups below its
// own: one that runs as root, or under systemd with Delegate=yes. Where that is missing
// the handler runs without, and [Status] says so.
type Limits struct {
	Memory    int64   // bytes; who needs more is killed
	CPU       float64 // cores; who needs more is slowed down
	Processes int     // processes and threads; who needs more cannot start them
}

// DefaultEnv returns what a program gets to see of the node's environment unless its
// configuration says otherwise: where programs and files are, and how text is written.
func DefaultEnv() []string {
	return []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"}
}

const (
	maxSlots     = 1 << 16
	maxProcesses = 1000
	pingsPerLife = 4 // pings within one Liveness
)

// withDefaults fills in what c leaves open, or returns everything that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		complain("the handler has no name")
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		complain("no command is given: name the program that serves the handler")
	}
	if c.Slots < 0 || c.Slots > maxSlots {
		complain("slots is %d: give 0 to %d", c.Slots, maxSlots)
	}
	if c.MaxResult < 0 {
		complain("the largest result has %d bytes: give 0 (default) or more", c.MaxResult)
	}
	if c.MaxProcesses < 0 || c.MaxProcesses > 0 && c.MinProcesses > c.MaxProcesses || c.MinProcesses > maxProcesses || c.MaxProcesses > maxProcesses {
		complain("there are to be %d to %d processes: give a least of at most %d and a most that is not below it",
			c.MinProcesses, c.MaxProcesses, maxProcesses)
	}
	if c.MaxTasks < 0 || c.MaxRSS < 0 {
		complain("a process is to be replaced after %d tasks and at %d bytes: give 0 (never) or more", c.MaxTasks, c.MaxRSS)
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

// pool returns how many processes there shall be.
func (c *Config) pool() pool {
	return pool{least: c.MinProcesses, most: c.MaxProcesses, atOnce: max(atOnceAlone, c.MaxProcesses), idle: c.Idle, perTask: c.PerTask}
}

// environ is the environment of the program, resolved anew at each start.
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
