package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
)

// classed has a type mail under a limit for each partner, and a type small under a limit below that.
func classed(cluster bool) policy.Set {
	mail, small := policy.DefaultType(), policy.DefaultType()
	mail.Limits, small.Limits = []string{"partner"}, []string{"class"}
	return policy.Set{Slots: 20, Types: map[string]policy.Type{"mail": mail, "small": small}, Limits: map[string]policy.Limit{
		"partner": {Name: "partner", Max: 2, Per: "payload.partner", Overrides: map[string]int{"big*": 5}, Cluster: cluster},
		"class":   {Name: "class", Of: "partner", Max: 1},
	}}
}

func ofPartner(typ, partner string) engine.Request {
	return engine.Request{Type: typ, Payload: fmt.Appendf(nil, `{"partner":%q}`, partner)}
}

func TestValuesOfLimitsThatAreFullAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := newGroup(t).join("a", classed(false), takes(time.Minute), "mail", "small")
		for range 3 {
			m.submit(ofPartner("mail", "acme"))
			m.submit(ofPartner("mail", "big1"))
			m.submit(ofPartner("small", "other"))
		}
		m.submit(ofPartner("mail", "idle"))
		time.Sleep(time.Second)
		want := []engine.FullLimit{{Name: "class", Value: "other", Used: 1, Max: 1}, {Name: "partner", Value: "acme", Used: 2, Max: 2}}
		if diff := cmp.Diff(want, m.FullLimits()); diff != "" {
			t.Errorf("they are (- want, + got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		if all := m.FullLimits(); len(all) != 0 {
			t.Errorf("when nothing runs they are %+v", all)
		}
	})
}

func TestEachNodeListsTheFullValuesOfALimitOfTheClusterThatItsTasksWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := classed(true)
		a, b := g.join("a", set, takes(time.Minute), "mail"), g.join("b", set, takes(time.Minute), "mail")
		for i := range 20 { // some of them are for each node
			r := ofPartner("mail", "acme")
			r.OrderingKey = fmt.Sprint(i)
			a.submit(r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		used := 0
		for _, m := range []*member{a, b} {
			all := m.FullLimits()
			if len(all) != 1 || all[0].Name != "partner" || all[0].Value != "acme" || all[0].Max != 2 || !all[0].Cluster {
				t.Fatalf("on node %s they are %+v", m.name, all)
			}
			used += all[0].Used
		}
		if used != 2 {
			t.Errorf("%d slots are used", used)
		}
	})
}
