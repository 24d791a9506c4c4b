//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// kind is a kind of phase.
type kind struct {
	name     string
	load     float64 // of the rate of the campaign
	burst    bool    // as many jobs as the phase has arrive in addition, at its begin and at once
	database bool    // needs PostgreSQL
	begin    func(*stage) error
}

// kinds are all kinds of phases, by the names of the public comparison where that has them.
func kinds() []kind {
	return []kind{
		{name: "warmup", load: 1},
		{name: "clean", load: 1},
		{name: "idle-in-tx", load: 1, database: true, begin: (*stage).holdTransaction},
		{name: "logical-slot", load: 1, database: true, begin: (*stage).holdSlot},
		{name: "active-readers", load: 1, database: true, begin: (*stage).read},
		{name: "high-load", load: 1.5},
		{name: "burst", load: 1, burst: true},
		{name: "recovery", load: 1},
		{name: "postgres-restart", load: 1, database: true, begin: (*stage).restartServer},
		{name: "pg-backend-kill", load: 1, database: true, begin: (*stage).killBackends},
		{name: "pool-exhaustion", load: 1, database: true, begin: (*stage).exhaust},
		{name: "kill-worker", load: 1, begin: (*stage).killWorker},
		{name: "repeated-kill", load: 1, begin: (*stage).killRepeatedly},
	}
}

// defaultPhases has all kinds. A recovery follows each pressure with an effect that lasts.
const defaultPhases = "warmup,clean,idle-in-tx,recovery,logical-slot,active-readers,high-load,burst,recovery," +
	"postgres-restart,recovery,pg-backend-kill,pool-exhaustion,kill-worker,repeated-kill,recovery"

// phase is a phase of a campaign.
type phase struct {
	kind
	lasts time.Duration
}

// parsePhases reads a list such as "warmup,clean=30s,idle-in-tx=1h". A phase without a time of its own lasts usual.
func parsePhases(text string, usual time.Duration) ([]phase, error) {
	var out []phase
	known := kinds()
	for one := range strings.SplitSeq(text, ",") {
		name, duration, timed := strings.Cut(strings.TrimSpace(one), "=")
		i := slices.IndexFunc(known, func(k kind) bool { return k.name == name })
		if i < 0 {
			var names []string
			for _, k := range known {
				names = append(names, k.name)
			}
			return nil, fmt.Errorf("-phases: %q is no phase; use %s", name, strings.Join(names, ", "))
		}
		p := phase{known[i], usual}
		if timed {
			var err error
			if p.lasts, err = time.ParseDuration(duration); err != nil {
				return nil, fmt.Errorf("-phases: %s: %w", name, err)
			}
		}
		if p.lasts < shortest {
			return nil, fmt.Errorf("-phases: %s lasts %v; a phase lasts at least %v", name, p.lasts, shortest)
		}
		out = append(out, p)
	}
	return out, nil
}

// shortest is the least time of a phase: figures are of whole seconds.
const shortest = 2 * time.Second

// withoutDatabase returns the phases that a subject without a database goes through.
func withoutDatabase(phases []phase) []phase {
	out := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return p.database })
	return slices.CompactFunc(out, func(a, b phase) bool { return a.name == "recovery" && b.name == "recovery" })
}
