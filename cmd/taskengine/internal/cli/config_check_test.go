package cli

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/config"
)

func TestLittleRoomForPebbleIsWarnedOf(t *testing.T) {
	if s := littleRoom(config.Pebble, "data", 256<<20, 200<<20, 10<<20); !strings.Contains(s, "200 MiB") {
		t.Errorf("with little room it says %q", s)
	}
	if s := littleRoom(config.Pebble, "data", 256<<20, 200<<20, 100<<20); s != "" {
		t.Errorf("with the room that it has already it says %q", s)
	}
}
