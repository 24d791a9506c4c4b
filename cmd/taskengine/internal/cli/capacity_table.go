package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
)

// showAnswer shows the needs of a load and how they were found.
func (a *app) showAnswer(x *capacity.Answer) error {
	if a.json() {
		if err := a.printJSON(x); err != nil {
			return err
		}
	} else if err := a.tellAnswer(x); err != nil {
		return err
	}
	if !x.Met {
		advice := ""
		if x.BreaksFirst == "cpu" {
			advice = "; a store in files has one node alone, so take a machine with more cores, or nodes that share PostgreSQL, which this calculation does not cover"
		}
		return exit.Errorf(exit.Failure, "the objective %s cannot be met: %s stops it%s", x.Objective, x.BreaksFirst, advice)
	}
	return nil
}

func (a *app) tellAnswer(x *capacity.Answer) error {
	met := "met"
	if !x.Met {
		met = "not met"
	}
	p := x.Predicted
	rows := [][]string{
		{"objective", fmt.Sprintf("%s: %s, %s", x.Objective, met, short3(x.At))},
		{"load", grouped(x.Rate) + " tasks/s in the busiest time"},
		{"slots", fmt.Sprint(x.Slots)},
		{"cores", fmt.Sprintf("%d of %d, %s in use", x.Cores, x.OfCores, units.Digits(p.CPU))},
		{"margin", marginText(x)},
		{"disk", fmt.Sprintf("%s commits/s, %s/s", grouped(p.Commits), units.Bytes(p.Bytes))},
		{"store", units.Bytes(x.StoreBytes) + " once as much is removed as comes"},
		{"memory", units.Bytes(x.MemoryBytes)},
		{"start", fmt.Sprintf("p50 %s, p99 %s", short3(p.P50), short3(p.P99))},
		{"head-room", fmt.Sprintf("%s times these rates", units.Digits(x.HeadRoom))},
		{"breaks first", x.BreaksFirst},
	}
	if err := a.printTable([]string{"WHAT", "ANSWER"}, rows); err != nil {
		return err
	}
	var used, waits [][]string
	for _, s := range x.Uses {
		used = append(used, []string{s.Name, percent(s.Share)})
	}
	for _, s := range x.Shares {
		waits = append(waits, []string{s.Name, percent(s.Share)})
	}
	var steps [][]string
	for _, s := range x.Steps {
		slots := fmt.Sprint(s.Slots)
		if s.Slots == 0 {
			slots = "any"
		}
		steps = append(steps, []string{s.Why, slots, fmt.Sprint(s.Cores), units.Digits(s.Factor), short3(s.Took), yesNo(s.Met)})
	}
	for _, t := range []struct {
		head []string
		rows [][]string
	}{
		{[]string{"IN USE", "OF THE TOTAL"}, used},
		{[]string{"LATE TASKS WAIT FOR", "BEYOND THE HEAD-ROOM"}, waits},
		{[]string{"SIMULATED", "SLOTS", "CORES", "RATES", x.Objective, "MET"}, steps},
	} {
		fmt.Fprintln(a.stdout)
		if err := a.printTable(t.head, t.rows); err != nil {
			return err
		}
	}
	return nil
}

// marginText writes how much more load the slots and cores of an answer can take.
func marginText(x *capacity.Answer) string {
	switch {
	case !x.Met:
		return "none"
	case x.Margin > 1:
		return fmt.Sprintf("slots and cores have room for %s times these rates", units.Digits(x.Margin))
	}
	return fmt.Sprintf("none: the objective holds up to %s times these rates", units.Digits(x.HeadRoom))
}

// showChecked shows predictions beside measurements.
func (a *app) showChecked(all []capacity.Checked) error {
	median, worst := capacity.Error(all)
	medianBeyond, worstBeyond := capacity.ErrorBeyond(all)
	if a.json() {
		for _, c := range all {
			if err := a.printJSON(c); err != nil {
				return err
			}
		}
		return a.printJSON(map[string]float64{
			"median_error": median, "worst_error": worst, "median_beyond": medianBeyond, "worst_beyond": worstBeyond,
		})
	}
	var rows [][]string
	for _, c := range all {
		foreign := 0.0
		for _, f := range c.Foreign {
			foreign = max(foreign, f)
		}
		row := []string{
			c.Load, short3(c.Predicted.P50) + " / " + short3(c.Measured.P50), short3(c.Predicted.P99) + " / " + short3(c.Measured.P99),
			units.Digits(c.Predicted.CPU) + " / " + units.Digits(c.Measured.CPU), grouped(c.Predicted.Commits) + " / " + grouped(c.Measured.Commits),
			units.Bytes(c.Predicted.Bytes) + " / " + units.Bytes(c.Measured.Bytes),
		}
		var errs, beyond []string
		for _, q := range capacity.Quantities() {
			errs = append(errs, share(c.Errors, q))
			beyond = append(beyond, share(c.Beyond, q))
		}
		rows = append(rows, append(row, strings.Join(errs, " "), strings.Join(beyond, " "), units.Digits(foreign)))
	}
	if err := a.printTable([]string{"LOAD", "START P50", "START P99", "CORES", "COMMITS/S", "BYTES/S", "ERRORS", "BEYOND THE RUNS", "OTHERS' CORES"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\npredicted / measured, the median of the runs. Errors, in the order of the columns: median %s, worst %s;\nbeyond the range of the runs of a load: median %s, worst %s\n",
		percent(median), percent(worst), percent(medianBeyond), percent(worstBeyond))
	return err
}

// share shows one of the errors, if there is one.
func share(errors map[string]float64, quantity string) string {
	if e, known := errors[quantity]; known {
		return percent(e)
	}
	return "-"
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// short3 writes a duration with at most two digits behind the point.
func short3(d time.Duration) string {
	unit := time.Duration(1)
	for _, u := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= u {
			unit = u / 100
			break
		}
	}
	return d.Round(unit).String()
}
