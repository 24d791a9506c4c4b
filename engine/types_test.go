package engine_test

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/engine"
)

func TestTypesThatClientsMakeUpAreListedUpToABound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), nil)
		for i := range 20 {
			n.submit(engine.Request{Type: fmt.Sprintf("made-up-%02d", i)})
		}
		n.submit(engine.Request{Type: "x"})
		for limit, want := range map[int]struct {
			types int
			more  bool
		}{0: {1, true}, 5: {6, true}, 20: {21, false}, 100: {21, false}} {
			types, more, err := n.AllTypes(t.Context(), limit)
			if err != nil || len(types) != want.types || more != want.more {
				t.Errorf("at most %d more are %d types, %v, %v", limit, len(types), more, err)
			}
		}
	})
}
