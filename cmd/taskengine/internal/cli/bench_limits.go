package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench/limits"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
)

func newBenchLimits(a *app) *cobra.Command {
	var o limits.Options
	budget := duration(limits.DefaultBudget)
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Measure the limits of this machine, without an engine",
		Long: `Measure the limits of this machine, without an engine: how fast the disk syncs and the
databases commit alone, the cost of a call to another process, and the delays of Go's scheduler
and timers. An engine on this machine stays within these limits.

Each is measured several times; the table has the median and the extremes. The machine
should have nothing else to do.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Budget = time.Duration(budget)
			return a.benchLimits(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", ".", "a folder on the disk to measure; the files written there are removed")
	flags.Var(&budget, "budget", "how long to measure, such as 10s; preparing takes a few seconds more")
	flags.StringSliceVar(&o.Only, "only", nil, "measure only these limits, or all limits with these prefixes, such as fsync,grpc/unix")
	return cmd
}

func (a *app) benchLimits(ctx context.Context, o limits.Options) error {
	signals := listenToSignals(ctx, nil)
	defer signals.close()
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(a.errTTY),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(false))
	o.Progress = func(name string) {
		bar.Describe("measuring " + name)
		_ = bar.Add(1) // only a terminal that is gone fails
	}
	measured, err := limits.Measure(signals.first, o)
	_ = bar.Finish()
	switch n := signals.number(); {
	case err == nil:
		return a.showLimits(measured)
	case n != 0:
		return exit.With(exit.Signal+n, err)
	case errors.Is(err, limits.ErrOptions):
		return exit.With(exit.Usage, err)
	}
	return err
}

func (a *app) showLimits(measured []benchresult.Limit) error {
	what := make(map[string]string)
	for _, l := range limits.All() {
		what[l.Name] = l.What
	}
	rows := make([][]string, len(measured))
	for i, l := range measured {
		if a.json() {
			if err := a.printJSON(l); err != nil {
				return err
			}
		}
		rows[i] = []string{
			l.Name, humanLimit(l.Value, l.Unit), humanLimit(l.Low, l.Unit), humanLimit(l.High, l.Unit), what[l.Name],
		}
	}
	if a.json() {
		return nil
	}
	return a.printTable([]string{"LIMIT", "MEDIAN", "LOW", "HIGH", "WHAT"}, rows)
}

// humanLimit writes a value with three digits that count.
func humanLimit(v float64, unit string) string {
	if unit == limits.Nanoseconds {
		return units.Scaled(v, " ", "ns", units.Unit{Size: 1e9, Name: "s"}, units.Unit{Size: 1e6, Name: "ms"}, units.Unit{Size: 1e3, Name: "us"})
	}
	if rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64); err == nil {
		v = rounded
	}
	return grouped(v) + "/s"
}

// grouped writes a value with its thousands apart.
func grouped(v float64) string {
	if v < 1000 {
		return units.Digits(v)
	}
	whole := int64(v)
	if whole < 1_000_000 {
		return fmt.Sprintf("%d %03d", whole/1000, whole%1000)
	}
	return fmt.Sprintf("%d %03d %03d", whole/1_000_000, whole/1000%1000, whole%1000)
}
