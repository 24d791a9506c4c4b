// Command peers measures taskengine and other task queues side by side: the same work on the same
// machine in the same run, in turns. Every queue is measured with its best documented settings and with
// its default settings.
//
// It is a module of its own so that users of taskengine do not download the other queues.
// bench/peers/run installs what it needs, builds the servers and runs it; docs/benchmarks.md explains
// the output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// subjects returns all subjects in the order of the tables.
func subjects() []subject {
	return slices.Concat(taskengineSubjects(), taskengineServerSubjects(), taskenginePostgresSubjects(), riverSubjects(), gueSubjects(), asynqSubjects(),
		faktorySubjects(), beanstalkdSubjects(), goqiteSubjects(), backliteSubjects(), natsSubjects())
}

type options struct {
	only     string
	quick    bool
	runs     int
	bin      string
	out      string
	lock     string
	markdown string
	list     bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "measure only subjects whose name contains one of these, separated by commas")
	flag.BoolVar(&o.quick, "quick", false, "measure only what is compared, and for a shorter time")
	flag.IntVar(&o.runs, "runs", 3, "how many rounds are measured")
	flag.StringVar(&o.bin, "bin", "", "folder with taskengine, nats-server and faktory; bench/peers/run builds them")
	flag.StringVar(&o.out, "out", "peers.json", "where to write the results; beside it go the tables, as .md")
	flag.StringVar(&o.lock, "lock", "", "a file that is locked while one subject is measured, so that several programs that measure take turns")
	flag.StringVar(&o.markdown, "markdown", "", "measure nothing, print the tables of these results")
	flag.BoolVar(&o.list, "list", false, "measure nothing, print what there is")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.markdown != "" {
		f, err := os.Open(o.markdown)
		if err != nil {
			return err
		}
		defer f.Close()
		results, err := result.Read(f)
		if err != nil {
			return fmt.Errorf("%s: %w", o.markdown, err)
		}
		return writeTables(os.Stdout, results)
	}
	chosen := choose(subjects(), o)
	if o.list {
		for _, s := range chosen {
			fmt.Printf("%-24s %s, %s. Durability: %s. %s\n", s.short, s.Name, s.Store, s.Durability, upper(s.Settings))
			for _, v := range s.variants {
				if v.says != "" {
					fmt.Printf("%-24s   tried: %s\n", "", v.says)
				}
			}
		}
		return nil
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-only %s names none of the subjects; -list shows them", o.only)
	}
	if o.runs < 1 {
		return fmt.Errorf("-runs is %d; give 1 or more", o.runs)
	}
	// Not the default folder for temporary files, which is in memory on many machines: there
	// a sync costs nothing.
	base, err := os.MkdirTemp("/var/tmp", "taskengine-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	s := &comparison{base: base, bin: o.bin, lock: o.lock, plan: fullPlan, usual: usualPlan, log: os.Stderr}
	if o.quick {
		s.plan = quickPlan
	}
	results, err := s.measure(ctx, chosen, o.runs)
	return errors.Join(err, write(o.out, results))
}

func choose(all []subject, o options) []subject {
	names := strings.Split(o.only, ",")
	return slices.DeleteFunc(all, func(s subject) bool {
		wanted := slices.ContainsFunc(names, func(n string) bool { return strings.Contains(s.short, n) })
		return !wanted || o.quick && !s.main
	})
}

// write writes the results and, beside them, the tables.
func write(path string, results []*result.Result) error {
	if len(results) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var doc, tables strings.Builder
	if err := errors.Join(result.Write(&doc, results), writeTables(&tables, results)); err != nil {
		return err
	}
	beside := strings.TrimSuffix(path, filepath.Ext(path)) + ".md"
	if err := errors.Join(os.WriteFile(path, []byte(doc.String()), 0o644), os.WriteFile(beside, []byte(tables.String()), 0o644)); err != nil {
		return err
	}
	fmt.Printf("%s\nThe results are in %s, this table in %s.\n", tables.String(), path, beside)
	return nil
}

// fullPlan is for figures to publish.
var fullPlan = plan{
	insert: 700 * time.Millisecond, drain: 2 * time.Second, life: 1500 * time.Millisecond, latency: 5 * time.Second,
	warm: 300 * time.Millisecond, rate: 1000, trial: time.Second, patience: 20 * time.Second,
}

// usualPlan is for default settings that are not compared. Their latency is measured as that of the
// others.
var usualPlan = plan{
	insert: 500 * time.Millisecond, drain: time.Second, life: time.Second, latency: 5 * time.Second,
	warm: 300 * time.Millisecond, rate: 1000, patience: 10 * time.Second,
}

// quickPlan is for a first look.
var quickPlan = plan{
	insert: 300 * time.Millisecond, drain: 700 * time.Millisecond, life: 700 * time.Millisecond, latency: 2 * time.Second,
	warm: 200 * time.Millisecond, rate: 1000, trial: 400 * time.Millisecond, patience: 10 * time.Second,
}
