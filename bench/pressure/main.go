//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/bench/report"
	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pressure:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	phase        time.Duration
	phases, only string
	rate         float64
	workers      int
	dir, bin     string
	out          string
	patience     time.Duration
}

func parse(args []string, errs io.Writer) (settings, []phase, error) {
	var s settings
	f := flag.NewFlagSet("pressure", flag.ContinueOnError)
	f.SetOutput(errs)
	f.DurationVar(&s.phase, "phase", time.Minute, "how long a phase lasts that has no time of its own")
	f.StringVar(&s.phases, "phases", defaultPhases, "the phases in their order, such as warmup,clean=30s,idle-in-tx=1h")
	f.StringVar(&s.only, "only", "taskengine,server,pebble", "the subjects in their order; river is built from the module bench/peers")
	f.Float64Var(&s.rate, "rate", 2000, "jobs a second")
	f.IntVar(&s.workers, "workers", 256, "jobs that run at once")
	f.StringVar(&s.dir, "dir", "/var/tmp", "a folder for the data, on the disk to measure")
	f.StringVar(&s.bin, "bin", "", "a folder with the programs; they are built if it is empty")
	f.StringVar(&s.out, "out", "bench/out/pressure", "the folder for result.json, report.html and table.txt")
	f.DurationVar(&s.patience, "patience", 2*time.Minute, "the longest wait for jobs that are left after the last phase")
	if err := f.Parse(args); err != nil {
		return s, nil, err
	}
	if s.rate <= 0 || s.workers < 1 {
		return s, nil, errors.New("-rate and -workers must be above 0")
	}
	phases, err := parsePhases(s.phases, s.phase)
	return s, phases, err
}

// build builds the programs into a folder. It runs in the folder of the module.
func build(ctx context.Context, dir string, river bool) error {
	commands := [][]string{{"build", "-o", dir + string(filepath.Separator), "./cmd/taskengine", "./bench/pressure/taskengine-bench"}}
	if river {
		commands = append(commands, []string{"build", "-C", "bench/peers", "-o", dir + string(filepath.Separator), "./river-bench"})
	}
	for _, args := range commands {
		c := exec.CommandContext(ctx, "go", args...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s (run it in the folder of the module): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// subjects returns all subjects, with the programs of a folder.
func subjects(bin string) []subject {
	ours := filepath.Join(bin, "taskengine-bench")
	const durable = "an acknowledged insert and an acknowledged end are fsynced"
	about := func(name, store, settings string) result.Subject {
		return result.Subject{Name: name, Store: store, Durability: durable, Settings: settings}
	}
	return []subject{
		{name: "taskengine", program: ours, args: []string{"-through", "postgres"}, about: about("taskengine", "PostgreSQL", "a library: one node in the process of the load")},
		{name: "server", program: ours, args: []string{"-through", "server"}, node: true, about: about("taskengine through its server", "PostgreSQL", "a node, and a client with a worker in another process, over a unix socket")},
		{name: "pebble", program: ours, args: []string{"-through", "pebble"}, alone: true, about: about("taskengine", "pebble", "a library: one node in the process of the load; the killed process is that of the load")},
		{name: "river", program: filepath.Join(bin, "river-bench"), about: about("River", "PostgreSQL", "64 connections insert and 16 work; notified, FetchCooldown 1ms, FetchPollInterval 20ms, RescueStuckJobsAfter 30s")},
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	s, phases, err := parse(args, log)
	if err != nil {
		return err
	}
	// The folders of servers are below that of temporary files.
	if err := os.Setenv("TMPDIR", s.dir); err != nil {
		return err
	}
	if s.bin == "" {
		if s.bin, err = os.MkdirTemp("", "pressure-bin"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.bin)) }()
		if err := build(ctx, s.bin, strings.Contains(s.only, "river")); err != nil {
			return err
		}
	}
	chosen, err := choose(subjects(s.bin), s.only)
	if err != nil {
		return err
	}
	p := plan{rate: s.rate, phases: phases, workers: s.workers, dir: s.dir, node: filepath.Join(s.bin, "taskengine"), patience: s.patience, log: log}
	c := &result.Campaign{Schema: result.Schema, Began: time.Now().UTC(), Command: args, Machine: machine.Describe(s.dir), Rate: s.rate}
	var failed error
	for _, one := range chosen {
		course, err := p.run(ctx, one)
		if err != nil { // the courses before it are written
			failed = err
			break
		}
		c.Courses = append(c.Courses, course)
	}
	if len(c.Courses) == 0 {
		return failed
	}
	return errors.Join(failed, write(c, s.out, out))
}

// choose returns the subjects with the given names.
func choose(all []subject, only string) ([]subject, error) {
	var out []subject
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(s subject) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: %q is no subject; use taskengine, server, pebble or river", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// write writes the files of a campaign, and its table to out. It fails if a check of a course failed.
func write(c *result.Campaign, dir string, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, to := range map[string]func(io.Writer) error{
		"result.json": c.Write,
		"report.html": func(w io.Writer) error { return report.WriteCampaign(w, c) },
		"table.txt":   func(w io.Writer) error { return writeTable(w, c) },
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(to(f), f.Close()); err != nil {
			return err
		}
	}
	if err := writeTable(out, c); err != nil {
		return err
	}
	for _, course := range c.Courses {
		if course.Check.Lost > 0 {
			return fmt.Errorf("%s lost %s", course.Subject.Name, result.Counted(course.Check.Lost, "job"))
		}
	}
	return nil
}
