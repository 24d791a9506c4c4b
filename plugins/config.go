package plugins

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
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

	Slots     int // tasks at once in the process, 0..65536; 0 leaves it to the handler
	MaxResult int // bytes of the largest result; default 16 MiB

	StartTimeout time.Duration // from starting the process to its hello; default 10 s
	Grace        time.Duration // from cancelling a task to SIGTERM for its process; default 10 s
	KillAfter    time.Duration // from SIGTERM to SIGKILL; default 2 s

	// Liveness is how long the process may be silent, though asked, before it is taken
	// for hung and killed. It is no limit for tasks. Default 1 min, negative is for ever.
	Liveness time.Duration

	Backoff    time.Duration // pause after the first crash; doubled with each further one; default 50 ms
	MaxBackoff time.Duration // the longest pause; default 30 s

	Logger *slog.Logger // what the host and the program have to say; nil is nowhere
	Host   string       // name and version of this host, told to the handler
}

// DefaultEnv returns what a program gets to see of the node's environment unless its
// configuration says otherwise: where programs and files are, and how text is written.
func DefaultEnv() []string {
	return []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"}
}

const (
	maxSlots     = 1 << 16
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
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"start timeout", c.StartTimeout},
		{"grace", c.Grace},
		{"kill delay", c.KillAfter},
		{"backoff", c.Backoff},
		{"longest backoff", c.MaxBackoff},
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
	defaultTo(&c.MaxResult, 16<<20)
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
