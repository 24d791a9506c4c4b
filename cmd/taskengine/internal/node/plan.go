package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/policy"
)

// planner has the bounds and the machine for the dashboard.
type planner struct {
	file  string // with the curves; "" for none
	store string // the driver

	policies atomic.Pointer[policy.Set] // in force
}

// Types implements [dashboard.Planner].
func (p *planner) Types() map[string]dashboard.PlannedType {
	set := p.policies.Load()
	types := make(map[string]dashboard.PlannedType, len(set.Types))
	for name, t := range set.Types {
		planned := dashboard.PlannedType{Weight: t.Weight, Concurrency: t.Concurrency, Slotless: t.Slotless}
		for _, l := range t.Limits {
			for _, l := range set.Chain(l) {
				planned.Limits = append(planned.Limits, l.Name)
			}
		}
		types[name] = planned
	}
	return types
}

// Curves implements [dashboard.Planner].
func (p *planner) Curves() string { return p.file }

// plannedTasks is how many tasks a step of a plan simulates. The command simulates ten times as many.
const plannedTasks = 4000

// Predict implements [dashboard.Planner].
func (p *planner) Predict(objective string, load map[string]dashboard.TypeLoad) (*dashboard.Prediction, error) {
	f, err := os.Open(p.file)
	if err != nil {
		return nil, fmt.Errorf("ui.plan: %w; write it by: taskengine capacity calibrate --dir DIRECTORY --out %s", err, p.file)
	}
	defer f.Close()
	curves, err := capacity.ReadCurves(f)
	if err != nil {
		return nil, fmt.Errorf("ui.plan: %s: %w", p.file, err)
	}
	if curves.Store != p.store {
		return nil, fmt.Errorf("ui.plan: the curves of %s are of the store %s, and this node has %s; curves can be measured of %s", p.file, curves.Store, p.store, strings.Join(capacity.Stores(), ", "))
	}
	observed := make(map[string]capacity.Observed, len(load))
	for name, l := range load {
		observed[name] = capacity.Observed{Rate: l.Rate, Retries: l.Retries, Mean: l.Mean}
	}
	text := capacity.Describe(objective, *p.policies.Load(), observed)
	if strings.HasSuffix(text, "types:\n") {
		return nil, errors.New("no task with an attempt shorter than 10s was added to this node in the last minute, so there is no load to be simulated")
	}
	described, err := capacity.Read("load.yaml", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	answer, err := capacity.Plan(curves, described, plannedTasks)
	if err != nil {
		return nil, err
	}
	made := &dashboard.Prediction{
		Met: answer.Met, HeadRoom: answer.HeadRoom, First: answer.BreaksFirst, P50: answer.Predicted.P50, P99: answer.Predicted.P99,
		Rate: answer.Rate, Load: text, Measured: curves.Measured,
	}
	for _, u := range answer.Uses {
		made.Uses = append(made.Uses, dashboard.Share{Name: u.Name, Share: u.Share})
	}
	if cores, much := curves.Disturbed(); much {
		made.Disturb = cores
	}
	return made, nil
}
