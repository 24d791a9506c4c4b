package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench/compare"
	"github.com/taskengine/taskengine/bench/limits"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
)

func newBenchCompare(a *app) *cobra.Command {
	alpha, strict := compare.DefaultAlpha, false
	cmd := &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Say which differences between two files of results are more than chance",
		Long: `Say which differences between two files of results are more than chance.

Each figure of B is compared with that of A by the exact Mann-Whitney U test over the
runs, and its p is adjusted for the number of figures (Benjamini-Hochberg). RATIO is B
to A, with the interval that holds it. "No difference shown" is not "the same"; "too few
runs" says that no outcome of so few could show one: with three runs on each side p is
never below 0.1. Six on each side are enough to show a single figure among twenty. How many
more runs are wanted is said below each table; ` + "`bench run --runs`" + ` makes as many.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, files []string) error {
			if !(alpha > 0 && alpha < 1) {
				return exit.Errorf(exit.Usage, "--alpha is %v; want a share above 0 and below 1, such as 0.05", alpha)
			}
			return a.benchCompare(files[0], files[1], alpha, strict)
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&alpha, "alpha", alpha, "which share of the differences shown may be false, on average")
	flags.BoolVar(&strict, "fail-if-slower", false, "exit with 1 if B is slower in any figure, or failed its checks")
	return cmd
}

func (a *app) benchCompare(nameA, nameB string, alpha float64, strict bool) error {
	before, err := readResults(nameA)
	if err != nil {
		return err
	}
	after, err := readResults(nameB)
	if err != nil {
		return err
	}
	r, err := compare.At(alpha, before, after)
	if err != nil {
		return err
	}
	if err := a.showComparison(r); err != nil {
		return err
	}
	switch {
	case len(r.Pairs) == 0:
		return exit.Errorf(exit.Failure, "nothing is compared: no result of %s has the scenario, subject, store and offered load of one of %s", nameB, nameA)
	case strict && r.Failed:
		return exit.Errorf(exit.Failure, "runs of %s failed their checks", nameB)
	case strict && r.Slower():
		return exit.Errorf(exit.Failure, "%s is slower", nameB)
	}
	return nil
}

func (a *app) showComparison(r *compare.Report) error {
	if a.json() {
		return a.printJSON(r)
	}
	for i, p := range r.Pairs {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := a.showPair(p); err != nil {
			return err
		}
		if few := p.TooFew(r); few != "" {
			a.note("%s: %s", clean(p.Key.String()), few)
		}
	}
	for _, side := range []struct {
		name string
		keys []compare.Key
	}{{"A", r.OnlyA}, {"B", r.OnlyB}} {
		for _, k := range side.keys {
			a.note("only %s has %s", side.name, clean(k.String()))
		}
	}
	if r.Compared > 0 {
		a.note("%s compared at alpha %g; P is adjusted for their number (%s), the intervals are for each alone.", benchresult.Counted(r.Compared, "figure"), r.Alpha, r.Adjustment)
	}
	return nil
}

func (a *app) showPair(p compare.Pair) error {
	_, err := fmt.Fprintln(a.stdout, clean(fmt.Sprintf("%s: %s, %s, and %s, %s",
		p.Key, revision(p.A), benchresult.Counted(p.A.Runs, "run"), revision(p.B), benchresult.Counted(p.B.Runs, "run"))))
	if err != nil {
		return err
	}
	for _, w := range p.Warnings {
		a.note("WARNING: %s: %s", clean(p.Key.String()), clean(w))
	}
	rows := make([][]string, len(p.Figures))
	for i, f := range p.Figures {
		rows[i] = []string{
			f.Name, humanFigure(f.A.Median, f.Unit), humanFigure(f.B.Median, f.Unit), fmt.Sprintf("%.3g", f.Ratio),
			fmt.Sprintf("%.3g to %.3g (%.3g %%)", f.Low, f.High, 100*f.Confidence), fmt.Sprintf("%.2g", f.Adjusted), string(f.Verdict),
		}
	}
	return a.printTable([]string{"FIGURE", "A", "B", "RATIO", "INTERVAL", "P", "VERDICT"}, rows)
}

// revision writes the version of a side.
func revision(s compare.Side) string {
	const letters = 12
	version := s.Version
	if version == "" {
		version = "a version unknown"
	}
	if s.Revision != "" {
		version += " (" + short(s.Revision, letters) + ")"
	}
	return version
}

// humanFigure writes a figure with three digits that count.
func humanFigure(v float64, unit string) string {
	switch unit {
	case "bytes":
		return units.Bytes(v)
	case "tasks/s":
		return humanLimit(v, limits.PerSecond)
	}
	return nanoseconds(v)
}
