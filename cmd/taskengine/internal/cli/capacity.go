package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/internal/machine"
)

func newCapacity(a *app) *cobra.Command {
	var curves string
	m := measuring{store: "pebble"}
	cmd := &cobra.Command{
		Use:   "capacity LOAD.yaml",
		Short: "Calculate the needs of a load: slots, cores, disk, and the first bottleneck",
		Long: `Calculate the needs of a load: slots, cores, disk and memory, how far it can grow, and the
first bottleneck. The load is described in a file; the machine is known by its curves, which
"taskengine capacity calibrate" measures. Without --curves this machine is measured first,
which takes a minute and a half.

The load is simulated with the engine's own core. "taskengine capacity verify" says how
far off that is, by running loads that it has predicted.

Exit code 1: the objective cannot be met with any resources.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			load, err := readFile(args[0], func(r io.Reader) (*capacity.Load, error) { return capacity.Read(args[0], r) })
			if err != nil {
				return err
			}
			c, err := a.curves(cmd.Context(), curves, &m)
			if err != nil {
				return err
			}
			answer, err := capacity.Plan(c, load, 0)
			if err != nil {
				return err
			}
			return a.showAnswer(answer)
		},
	}
	cmd.Flags().StringVar(&curves, "curves", "", "the curves of the machine, as calibrate has written them")
	m.add(cmd)
	m.addRounds(cmd)
	cmd.AddCommand(newCapacityCalibrate(a), newCapacityVerify(a))
	return cmd
}

// measuring are the flags of commands that measure this machine.
type measuring struct {
	store, dir       string
	rounds, attempts int
}

func (m *measuring) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.store, "store", "pebble", "the store to measure: "+strings.Join(capacity.Stores(), ", "))
	flags.StringVar(&m.dir, "dir", ".", "a folder on the disk to measure; the files written there are removed")
	flags.IntVar(&m.attempts, "attempts", 3, "how often a run is made, at most, while others use the machine")
}

func (m *measuring) addRounds(cmd *cobra.Command) {
	cmd.Flags().IntVar(&m.rounds, "rounds", 2, "how often everything is measured")
}

func (m *measuring) options(a *app) capacity.Options {
	return capacity.Options{
		Store: m.store, Dir: m.dir, Rounds: m.rounds, Scale: 1, Attempts: m.attempts, Machine: machine.Describe(m.dir),
		Progress: func(run string, done, of int) { a.note("measuring %d of %d: %s", done+1, of, run) },
	}
}

func (m *measuring) calibrate(ctx context.Context, a *app) (*capacity.Curves, error) {
	c, err := capacity.Calibrate(ctx, m.options(a))
	if err != nil {
		return nil, err
	}
	a.warnOfOthers(c)
	return c, nil
}

// warnOfOthers warns if other programs used the machine while curves were measured.
func (a *app) warnOfOthers(c *capacity.Curves) {
	if cores, much := c.Disturbed(); much {
		a.note("others used up to %.1f cores while these curves were measured: do not rely on them, calibrate again when nothing else runs", cores)
	}
}

// curves reads the curves of a machine from a file, or measures this machine.
func (a *app) curves(ctx context.Context, file string, m *measuring) (*capacity.Curves, error) {
	if file != "" {
		c, err := readFile(file, capacity.ReadCurves)
		if err == nil {
			a.warnOfOthers(c)
		}
		return c, err
	}
	return m.calibrate(ctx, a)
}

func readFile[T any](file string, read func(io.Reader) (T, error)) (none T, err error) {
	f, err := os.Open(file)
	if err != nil {
		return none, err
	}
	defer f.Close()
	v, err := read(f)
	if err != nil {
		return none, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

func newCapacityCalibrate(a *app) *cobra.Command {
	var m measuring
	var out string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure the costs of operations on this machine, for capacity",
		Long: `Measure the costs of operations on this machine, for "taskengine capacity": the duration of
syncs, and the computation and the writes for each task, with runs of the real engine of a
minute and a half. Nothing else should run at the same time; a disturbed run is repeated.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := m.calibrate(cmd.Context(), a)
			if err != nil {
				return err
			}
			if out == "" {
				return c.Write(a.stdout)
			}
			f, err := os.Create(out)
			if err != nil {
				return err
			}
			if err := c.Write(f); err != nil {
				f.Close()
				return err
			}
			return f.Close()
		},
	}
	m.add(cmd)
	m.addRounds(cmd)
	cmd.Flags().StringVar(&out, "out", "", "the file to write; without it, standard output")
	return cmd
}

func newCapacityVerify(a *app) *cobra.Command {
	var m measuring
	var file string
	var o capacity.Checking
	length := duration(5 * time.Second)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Predict loads, run them, and say how far off the predictions are",
		Long: `Predict loads, run them on this machine, and say how far off the predictions are. The
loads are built in and none of them is part of the calibration. Each is run several
times, and the medians are compared.

Without --curves the machine is measured as often as the loads are run, in turns, so that the
comparison is about the model: about two minutes for each. With --curves it is about a plan
that was made from them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Dir, o.Length, o.Attempts = m.dir, time.Duration(length), m.attempts
			o.Progress = func(load string) { a.note("running %s", load) }
			checked, err := a.verify(cmd.Context(), file, &m, o)
			if err != nil {
				return err
			}
			return a.showChecked(checked)
		},
	}
	m.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&file, "curves", "", "the curves of this machine, as calibrate has written them; without them the machine is measured between the runs")
	flags.IntVar(&o.Repeats, "repeats", 3, "how often each load is run, and without --curves the machine measured")
	flags.Var(&length, "length", "how long each run is, such as 5s")
	flags.StringSliceVar(&o.Only, "only", nil, "only these loads: "+strings.Join(capacity.Loads(), ", "))
	return cmd
}

// verify predicts and runs loads, with the curves of a file, or measured on this machine now.
func (a *app) verify(ctx context.Context, file string, m *measuring, o capacity.Checking) ([]capacity.Checked, error) {
	if file != "" {
		c, err := a.curves(ctx, file, m)
		if err != nil {
			return nil, err
		}
		return capacity.Verify(ctx, c, o)
	}
	c, checked, err := capacity.VerifyModel(ctx, m.options(a), o)
	if err == nil {
		a.warnOfOthers(c)
	}
	return checked, err
}
