package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
)

func TestRolesByMessagesHaveTheLeaseOfTheConfiguration(t *testing.T) {
	if got := electionOf(config.Coordination{Roles: config.GUID, Lease: 3 * time.Second}, slog.New(slog.DiscardHandler)); got.Lease != 3*time.Second {
		t.Errorf("the lease of roles is %v", got.Lease)
	}
}
