package dashboard

import (
	"sync"
	"time"
)

const (
	// After a prediction none starts for restFactor times its duration.
	restFactor = 10
	// maxPredictions is how many are kept, of different objectives.
	maxPredictions = 16
	// predictionFresh is the age of a prediction from which opening the page starts a new one.
	predictionFresh = 30 * time.Second
)

// predictions are made for people that open the page of the plan, one at a time.
type predictions struct {
	mu   sync.Mutex
	all  map[string]*predicted // guarded by mu: by objective
	busy bool                  // guarded by mu: one is being made
	rest time.Time             // guarded by mu: until when none is made
}

// predicted is a prediction with its time.
type predicted struct {
	*Prediction
	Err  string
	At   time.Time
	Took time.Duration
}

// of returns the newest prediction of an objective, or nil if there is none yet. It starts one if there is none, or if a person opens the page
// and it is old.
func (p *predictions) of(v *view, objective string, load nodeLoad) *predicted {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.all[objective]
	if was != nil && (v.isRefresh() || v.now.Sub(was.At) < predictionFresh) || p.busy || v.now.Before(p.rest) {
		return was
	}
	loads := make(map[string]TypeLoad, len(load))
	for name, u := range load {
		if name != "" && u.Rate > 0 {
			loads[name] = u.TypeLoad
		}
	}
	p.busy = true
	go func() {
		begin := time.Now()
		made, err := v.d.Planner.Predict(objective, loads)
		one := &predicted{Prediction: made, At: begin, Took: time.Since(begin)}
		if err != nil {
			one.Err = err.Error()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.all == nil || len(p.all) >= maxPredictions {
			p.all = make(map[string]*predicted)
		}
		p.all[objective], p.busy, p.rest = one, false, time.Now().Add(restFactor*one.Took)
	}()
	return was
}
