//go:build !race

package conform_test

import (
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/plugins/conform"
)

// The checks that workers with a fault fail.
const (
	comesBack  = "when its connection breaks it connects again, with its session and the runs that it has"
	sendsAgain = "an answer that may not have arrived is sent again"
	forgets    = "an answer that has arrived is not sent again"
	namesIt    = "an answer for a node that does not know its session names the attempt"
	refused    = "it connects again when it is refused, and says why it was"
	drained    = "after a drain and the end of the stream it exits with status 0 within 5 s"
	forOthers  = "an answer for a node that cannot take it by its attempt is dropped"
	goesOn     = "a task that runs while the connection is broken goes on"
	givenAway  = "a task that the node has given to others is cancelled, and its answer counts for nothing"
	forgotten  = "a task of a session that the node does not know is cancelled"
	answersAll = "on SIGTERM a task that runs is not cancelled, and its answer is sent before the end"
	terminated = "on SIGTERM it says that it leaves, and exits with status 0 when the node ends the stream"
)

// asSuite returns the checks that a worker fails which says that it is a conformance program, can only echo and wait, and
// fails others, too.
func asSuite(others ...string) []string {
	return append([]string{
		"a handler sees every field of its task", "a handler sees that fields are empty", "a run beyond its slots does not begin before one is free",
	}, others...)
}

func TestEachFaultOfAWorkerFailsItsCheckAndNoOther(t *testing.T) {
	atOnce := make(chan struct{}, 8)
	var examined sync.WaitGroup
	for fault, want := range map[string][]string{
		"does not connect":        {"it connects to the node that TASKENGINE_ADDRESS names"},
		"no offer":                {greets},
		"a short session":         {"its offer has a session of 16 bytes"},
		"no token":                {"it sends the token that TASKENGINE_TOKEN has"},
		"protocol 2":              {"the hello speaks version 1 of the protocol"},
		"no types":                {"the hello names the task types that it serves"},
		"more credits than slots": {"it gives credits, at least one and no more than it has slots"},
		"ignores pings":           {"it answers a ping while it has nothing to do"},
		"two finishes":            {finish, nothingElse},
		"refuses":                 {finish},
		"credits run out":         {credits},
		"gives up":                {refused, comesBack},
		"does not say why":        {refused},
		"another session":         {comesBack},
		"offers no runs":          {comesBack},
		"sends nothing again":     {sendsAgain},
		"ignores received":        {forgets},
		"forgets its answers":     {namesIt},
		"answers runs of before":  {namesIt},

		"waits":                                  asSuite(),
		"answers nodes that cannot know":         {forOthers},
		"offers only what it has answered":       asSuite(goesOn, givenAway, forgotten),
		"stops tasks when the connection breaks": asSuite(goesOn, givenAway, forgotten),
		"goes on with lost tasks":                asSuite(givenAway, forgotten),
		"answers lost tasks":                     asSuite(givenAway, forgotten),
		"cancels on SIGTERM":                     asSuite(answersAll),
		"waits for ever":                         {"a node that is silent is given up"},
		"drops all when drained":                 {"what it has when the drain comes is answered"},
		"does not end":                           {drained, terminated},
		"exits with status 3":                    {drained, terminated},
		"dies of SIGTERM":                        {terminated},
		"ignores SIGTERM":                        {terminated},
	} {
		o := self(t, workerPart+fault)
		o.Type, o.Payload, o.Remote = "echo", []byte("hello"), true
		examined.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			r := examineFaulty(t, o, func(r conform.Report) bool { return slices.Equal(names(r, conform.Failed), want) })
			if diff := gocmp.Diff(want, names(r, conform.Failed)); diff != "" {
				t.Errorf("what failed for %q (-want +got):\n%s\n%+v", fault, diff, r.Checks)
			}
		})
	}
	examined.Wait()
}
