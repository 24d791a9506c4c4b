package reason

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord"
)

func TestAServerBeforeTheOldestVersionIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{
		"3.3.27": true, "2.9.9": true, "3.4.0": false, "3.10.1": false, "4.0": false, "": false, "unknown": false, "3": false, "3.x.1": false,
	} {
		err := TooOld("etcd", "host:1", version, "3.4")
		if errors.Is(err, coord.ErrRefused) != refused {
			t.Errorf("%q: %v", version, err)
		}
		if want := "host:1 is etcd " + version + ", and this program needs 3.4 or newer: upgrade it"; refused && err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
	}
}

func TestTheFirstServerThatSaysItsVersionIsEnough(t *testing.T) {
	ask := func(ctx context.Context, address string) string {
		if address == "hangs" {
			<-ctx.Done()
		}
		version, _ := strings.CutPrefix(address, "has ")
		return strings.TrimPrefix(version, address)
	}
	if version, address := FirstVersion(t.Context(), []string{"hangs", "says none", "has 3.4.1"}, ask); version != "3.4.1" || address != "has 3.4.1" {
		t.Errorf("it is %q of %q", version, address)
	}
	if version, _ := FirstVersion(t.Context(), []string{"says none", "says no other"}, ask); version != "" {
		t.Errorf("it is %q", version)
	}
}
