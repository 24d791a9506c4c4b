//go:build !race

package conform_test

import (
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/plugins/conform"
)

func TestEachFaultFailsItsCheckAndNoOther(t *testing.T) {
	atOnce := make(chan struct{}, 8) // they mostly wait, and testing has as many at once as there are processors
	var examined sync.WaitGroup
	for fault, want := range map[string][]string{
		"takes a person for a host":        {byHand},
		"greets a person":                  {byHand},
		"says nothing to a person":         {byHand},
		"prints first":                     {shakesHands},
		"says nothing":                     {shakesHands},
		"dies at once":                     {shakesHands},
		"handshake of version 2":           {"the handshake names version 1 of the protocol"},
		"socket elsewhere":                 {"its socket is in the directory that it was given"},
		"says something before hello":      {greets},
		"protocol 2":                       {"the hello speaks version 1 of the protocol"},
		"no types":                         {"the hello names the task types that it serves"},
		"too many slots":                   {"it has at least one slot, and no more than the welcome says"},
		"no slots of its own":              {"it has slots if the welcome leaves their number to it"},
		"no credits":                       {"it gives credits, at least one and no more than it has slots"},
		"more credits than slots":          {"it gives credits, at least one and no more than it has slots"},
		"ignores pings":                    {"it answers a ping while it has nothing to do"},
		"misses pings that come with runs": {"a ping that comes with a run is answered"},
		"dies of a strange cancel":         {"a cancel of a run that it does not have is ignored"},
		"dies of unknown fields":           {"fields that it does not know are ignored"},
		"silent about unknown types":       {unknownType},
		"serves unknown types":             {unknownType},
		"no finish":                        {finish},
		"two finishes":                     {finish, nothingElse},
		"another finish later":             {nothingElse},
		"finish without outcome":           {finish},
		"refuses":                          {finish},
		"credits run out":                  {credits},
		"two credits each":                 {credits},
		"takes one run of a frame":         {"several runs in one frame are answered each", "a run beyond its slots is refused, or waits"},
		"drops runs beyond its slots":      {"a run beyond its slots is refused, or waits"},
		"run ids of 32 bits":               {"the id of a run may be as large as 2^40", nothingElse},
		"dies of large payloads":           {"a payload may have 5 MB"},
		"drops all when drained":           {"what it has when the drain comes is answered"},
		"does not exit":                    {"after a drain and the end of the stream it exits with status 0 within 5 s", "it exits within 5 s when its host vanishes"},
		"exits with status 3":              {"after a drain and the end of the stream it exits with status 0 within 5 s"},
		"leaves its process group":         {shakesHands},
		"leaves a child to a person":       nil,
		"leaves a child":                   {"no process is left when it has exited"},
		"a second hello":                   {nothingElse},
		"a pong too many":                  {nothingElse},
		"garbage in lines":                 {nothingElse},
		"chatters":                         nil,
	} {
		for _, by := range []string{"grpc", "json"} {
			if by == "grpc" && fault == "garbage in lines" || by == "json" && !alsoInLines[fault] {
				continue
			}
			o := self(t, fault, transport+"="+by, elsewhere+"="+t.TempDir())
			o.Type, o.Payload = "echo", []byte("hello")
			examined.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				r := examineFaulty(t, o, func(r conform.Report) bool { return slices.Equal(names(r, conform.Failed), want) })
				if diff := gocmp.Diff(want, names(r, conform.Failed)); diff != "" {
					t.Errorf("what failed for %q by %s (-want +got):\n%s\n%+v", fault, by, diff, r.Checks)
				}
			})
		}
	}
	examined.Wait()
}

// alsoInLines are the faults that handlers which speak in lines are examined for, too.
var alsoInLines = map[string]bool{
	"says nothing to a person": true, "prints first": true, "dies at once": true, "handshake of version 2": true, "no types": true,
	"says something before hello": true, "ignores pings": true, "misses pings that come with runs": true, "dies of unknown fields": true,
	"no finish": true, "two finishes": true, "credits run out": true, "run ids of 32 bits": true, "does not exit": true,
	"exits with status 3": true, "leaves a child": true, "a pong too many": true, "garbage in lines": true,
}
