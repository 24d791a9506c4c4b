package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench"
	"github.com/taskengine/taskengine/bench/limits"
	"github.com/taskengine/taskengine/bench/report"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/storage"
)

// benchFlags are the flags of `bench run`.
type benchFlags struct {
	store    string
	dir      string
	out      string
	html     string
	duration string
	rate     []string
	runs     int
	sets     []string
	limits   bool
	python   string
	pySDK    string
}

func newBenchRun(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Put the load of scenarios on an engine, measure it, and verify the outcome",
		Long: `Put the load of scenarios on an engine, measure it, and verify the outcome.

A SCENARIO is the name of one that ` + "`taskengine bench list`" + `shows, or a file of your own (with a slash or .yaml). Each is run several times on a fresh
store in --dir, which has to be on the disk to measure. The exit code is 1 if a task was lost,
doubled, out of order or over a limit, or if an objective was missed; with a list of rates, if
it was missed at each of them.

  taskengine bench run noop sweep --out result.json --html result.html
  taskengine bench run ./mine.yaml --store bolt --duration 30s --set tasks.0.payload=4KiB`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scenarios, err := f.scenarios(args)
			if err != nil {
				return err
			}
			return a.benchRun(cmd.Context(), scenarios, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "pebble", "the store: "+suggest.Either(stores.Benched()))
	flags.StringVar(&f.dir, "dir", bench.DiskDir(), "a folder on the disk to measure; the files written there are removed")
	flags.StringVar(&f.out, "out", "", "write the results to this file, as JSON")
	flags.StringVar(&f.html, "html", "", "write a report to this file, one page of HTML")
	flags.StringVar(&f.duration, "duration", "", "how long the load lasts, in scenarios that have a duration")
	flags.StringSliceVar(&f.rate, "rate", nil, "tasks a second, such as 1000/s, in scenarios that have a rate; several are measured each by itself")
	flags.IntVar(&f.runs, "runs", 0, "the number of runs, instead of the number in the scenario")
	flags.StringArrayVar(&f.sets, "set", nil, "replace a value of the scenario: key=value, such as tasks.0.payload=4KiB; repeatable")
	flags.BoolVar(&f.limits, "limits", false, "measure the limits of the machine first, and set the figures against them")
	flags.StringVar(&f.python, "python", "python3", "the Python that runs plugins in Python")
	flags.StringVar(&f.pySDK, "python-sdk", defaultPythonSDK, "where Python finds the package taskengine, if it is not installed")
	return cmd
}

// defaultPythonSDK is the folder of the package within this repository.
const defaultPythonSDK = "plugins/sdk/python"

// scenarios reads all scenarios before any of them runs.
func (f *benchFlags) scenarios(names []string) ([]*bench.Scenario, error) {
	var all []*bench.Scenario
	for _, name := range names {
		s, err := f.scenario(name)
		var problems *config.Errors
		switch {
		case err == nil:
			all = append(all, s)
		case errors.As(err, &problems):
			return nil, err
		case errors.Is(err, bench.ErrNoScenario), errors.Is(err, fs.ErrNotExist):
			return nil, exit.With(exit.Usage, err)
		default:
			return nil, err
		}
	}
	return all, nil
}

// scenario reads a scenario. --duration and --rate apply to scenarios that have a duration or a rate.
func (f *benchFlags) scenario(name string) (*bench.Scenario, error) {
	s, err := bench.LoadScenario(name, f.sets...)
	if err != nil {
		return nil, err
	}
	sets := slices.Clone(f.sets)
	if f.duration != "" && s.Duration > 0 {
		sets = append(sets, "duration="+f.duration)
	}
	if len(f.rate) > 0 && len(s.Load.Rates) > 0 {
		sets = append(sets, "load.rate=["+strings.Join(f.rate, ", ")+"]")
	}
	if f.runs != 0 {
		sets = append(sets, fmt.Sprintf("runs=%d", f.runs))
	}
	return bench.LoadScenario(name, sets...)
}

func (a *app) benchRun(ctx context.Context, scenarios []*bench.Scenario, f *benchFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	signals := listenToSignals(ctx, nil)
	defer signals.close()
	ctx = signals.first
	bar := a.benchBar()
	o.Progress = bar.show
	if f.limits {
		o.Limits, err = limits.Measure(ctx, limits.Options{Dir: f.dir, Progress: func(name string) { bar.say("measuring " + name) }})
	}
	var results []*benchresult.Result
	for _, s := range scenarios {
		if err != nil {
			break
		}
		var some []*benchresult.Result
		some, err = bench.Run(ctx, s, o)
		bar.clear()
		results = append(results, some...)
		for _, r := range some {
			if !a.json() {
				if err := a.showBench(r); err != nil {
					return err
				}
			}
		}
	}
	bar.clear()
	if n := signals.number(); err != nil && n != 0 {
		err = exit.With(exit.Signal+n, errors.New("interrupted; the measurements before are shown"))
	}
	return errors.Join(err, a.keepBench(results, f), verdict(results))
}

// keepBench writes the results where they were wanted.
func (a *app) keepBench(results []*benchresult.Result, f *benchFlags) error {
	if a.json() {
		if err := benchresult.Write(a.stdout, results); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer, []*benchresult.Result) error
	}{{f.out, benchresult.Write}, {f.html, report.Write}} {
		if file.name == "" || len(results) == 0 {
			continue
		}
		if err := writeFile(file.name, func(w io.Writer) error { return file.write(w, results) }); err != nil {
			return fmt.Errorf("keep the results: %w", err)
		}
	}
	return nil
}

// writeFile writes a file with the folder it is in.
func writeFile(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// verdict is an error if a check failed in any run, or an objective was missed.
func verdict(results []*benchresult.Result) error {
	bad := 0
	met := make(map[string]bool) // objectives, by scenario: one of its rates is enough
	for _, r := range results {
		for i := range r.Runs {
			if !r.Runs[i].Check.OK {
				bad++
			}
		}
		if r.Objective != nil {
			met[r.Scenario] = met[r.Scenario] || r.Objective.Met
		}
	}
	maps.DeleteFunc(met, func(_ string, met bool) bool { return met })
	switch missed := slices.Sorted(maps.Keys(met)); {
	case bad > 0:
		return exit.Errorf(exit.Failure, "%s broke a promise: see the checks", benchresult.Counted(bad, "run"))
	case len(missed) > 0:
		return exit.Errorf(exit.Failure, "the objective was missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

// options returns the store and the programs that scenarios run on.
func (f *benchFlags) options() (bench.Options, error) {
	driver, ok := stores.Named(f.store)
	if !ok || driver.Durability == "" {
		return bench.Options{}, exit.Errorf(exit.Usage, "--store: %q is no store; use %s", f.store, suggest.Either(stores.Benched()))
	}
	o := bench.Options{Store: f.store, Dir: f.dir, Python: f.python, PythonPath: f.pySDK, Durability: driver.Durability, OpenStore: benchStore(driver.Of)}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find this program, to start plugins and nodes with it: %w", err)
	}
	if sdk, err := filepath.Abs(f.pySDK); err == nil {
		o.PythonPath = sdk
	}
	o.Plugin = []string{self, "bench", "plugin"}
	o.Node = []string{self, "bench", "node", "--store", f.store, "--python", f.python, "--python-sdk", o.PythonPath}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return o, fmt.Errorf("--dir: %w", err)
	}
	return o, nil
}

// benchStore opens the stores of a driver as `taskengine run` does.
func benchStore(driver config.Driver) func(dir string) (storage.Store, error) {
	return func(dir string) (storage.Store, error) {
		return stores.Open(context.Background(), config.Storage{Driver: driver, Path: dir}, nil)
	}
}

// benchBar shows the progress of a benchmark on a terminal.
type benchBar struct {
	bar *progressbar.ProgressBar
	app *app
}

func (a *app) benchBar() *benchBar {
	return &benchBar{app: a, bar: progressbar.NewOptions(1000,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(a.errTTY), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(false), progressbar.OptionSetPredictTime(false))}
}

func (b *benchBar) say(what string) { b.bar.Describe(what) }

func (b *benchBar) show(p bench.Progress) {
	if !b.app.errTTY {
		return
	}
	load := ""
	if p.Offered > 0 {
		load = fmt.Sprintf(" at %s/s", grouped(p.Offered))
	}
	b.bar.Describe(fmt.Sprintf("%s%s, run %d of %d: %s, %s tasks", p.Scenario, load, p.Run, p.Runs, p.Phase, grouped(float64(p.Ended))))
	_ = b.bar.Set(min(999, int(1000*p.Done))) // only a terminal that is gone fails
}

func (b *benchBar) clear() { _ = b.bar.Clear() }
