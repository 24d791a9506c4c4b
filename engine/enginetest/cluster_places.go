package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// placeScenarios are about values that name the nodes that may run their tasks, see policy.Limit.Nodes.
var placeScenarios = []clusterScenario{
	{"tasks of a value run on the nodes that it names, also when these are replaced, and wait while there is none", longLease, func(c *cluster) {
		set := types(20, func(p *policy.Type) { p.Limits = []string{"partner"} }, "export")
		set.Limits = map[string]policy.Limit{"partner": {
			Name: "partner", Max: 5, Cluster: true, Per: "headers.partner", Nodes: map[string]policy.Nodes{"acme-*": {"zone": {"eu"}}},
		}}
		var mu sync.Mutex
		wrong := make(map[string]bool) // guarded by mu
		in := func(zone string) *peer {
			return c.join(set, nil, func(p *peer) {
				p.config.Labels = map[string]string{"zone": zone}
				p.config.Handlers["export"] = c.ledger.watch(p.name, func(_ context.Context, t *task.Task) ([]byte, error) {
					if partner := t.Headers["partner"]; zone != "eu" && strings.HasPrefix(partner, "acme-") {
						mu.Lock()
						wrong[fmt.Sprintf("%s on %s", partner, p.name)] = true
						mu.Unlock()
					}
					return nil, nil
				})
			})
		}
		us, eu := in("us"), in("eu")
		in("us")
		c.meet()
		var ids []task.ID
		add := func(p *peer) {
			ids = append(ids, p.submit(repeat(200, func(i int) engine.Request {
				r := engine.Request{Type: "export", Headers: map[string]string{"partner": []string{"acme-1", "other", "acme-2"}[i%3]}}
				if i%4 == 0 {
					r.At = time.Now().Add(200 * time.Millisecond)
				}
				return r
			})...)...)
		}
		add(us)
		add(eu)
		us.wait(ids...)
		eu.leave()
		c.meet()
		before := len(ids)
		add(us)
		waiting := ids[before:]
		for i, id := range waiting {
			if i%3 == 1 {
				us.wait(id)
			} else if got := us.get(id); got.State != task.Submitted && got.State != task.Waiting {
				c.Errorf("a task of a value that no node may run is %v", got.State)
			}
		}
		in("eu")
		c.meet()
		us.wait(waiting...)
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 {
			c.Errorf("tasks ran where they may not: %v", wrong)
		}
	}},
}
