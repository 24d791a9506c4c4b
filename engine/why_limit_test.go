package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

func TestWhySaysWhatThisNodeHasOfALimitOfTheCluster(t *testing.T) {
	u := table.Usage{Name: "payouts", Used: 2, Max: 10, Need: 3, Full: true, Cluster: true, Held: 4, Waiting: 5}
	before := u
	turn := table.Usage{Name: "partner", Value: "small", Used: 1, IsTurnOf: true, Turn: "large"}
	before.Before = table.Claim{ID: task.ID{15: 1}, Type: "mail", Need: 4}
	lone := u
	lone.Held, lone.Waiting, lone.Need = 2, 0, 1
	lowered := u // the maximum was lowered below the permits of the node
	lowered.Max, lowered.Waiting = 1, 0
	for name, c := range map[string]struct{ got, want Reason }{
		"full": {limitReason(u, nil), Reason{
			Code: CodeLimit, Limit: "payouts", Used: 2, Max: 10, Cluster: true, Held: 4, Waiting: 5,
			Text: "limit payouts: this node uses 2 of the 4 permits that it has, of 10 in the cluster; other nodes wait for 5; it takes 3, and 2 are free",
		}},
		"no other node waits": {limitReason(lone, nil), Reason{
			Code: CodeLimit, Limit: "payouts", Used: 2, Max: 10, Cluster: true, Held: 2,
			Text: "limit payouts: this node uses 2 of the 2 permits that it has, of 10 in the cluster",
		}},
		"lowered": {limitReason(lowered, nil), Reason{
			Code: CodeLimit, Limit: "payouts", Used: 2, Max: 1, Cluster: true, Held: 4,
			Text: "limit payouts: this node uses 2 of the 4 permits that it has, of 1 in the cluster; it takes 3, and 0 are free",
		}},
		"behind another": {beforeReason(before, nil), Reason{
			Code: CodeQueue, Limit: "payouts", Used: 2, Max: 10, Cluster: true, Held: 4, Waiting: 5,
			Text: "limit payouts: task " + before.Before.ID.String() + " of type mail is before it and needs 4 slots; 2 are free",
		}},
		"not its turn": {turnReason(turn, nil), Reason{
			Code: CodeQueue, Limit: "partner", Value: "small", Used: 1,
			Text: "limit partner for small: its values take turns, and it is the turn of large",
		}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
