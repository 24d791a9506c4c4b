package cli

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newKeyList(a *app) *cobra.Command {
	req, limit := &taskenginev1.ListKeysRequest{}, 0
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List ordering keys with tasks that run or wait, each with its head",
		Long: `List ordering keys with tasks that run or wait, in the order of the keys. The tasks of a key
run one at a time: the head is the one that runs now or next, and the others are behind it. The
head of a key that is stopped by an error is in this state: --state error lists these keys.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 or more", limit)
			}
			return a.with(func(c *client) error { return a.listKeys(cmd, c, req, limit) })
		},
	}
	cmd.Flags().StringVar(&req.PageToken, "after", "", "only keys after this one")
	cmd.Flags().StringSliceVar(&req.States, "state", nil, "only keys with a head in this state; may be given more than once")
	cmd.Flags().BoolVar(&req.Behind, "behind", false, "only keys with tasks behind the head")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	return cmd
}

// listKeys shows at most limit keys.
func (a *app) listKeys(cmd *cobra.Command, c *client, req *taskenginev1.ListKeysRequest, limit int) error {
	req = proto.CloneOf(req) // the next look begins anew
	var keys []*taskenginev1.OrderingKey
	for left := limit; left > 0; {
		req.Limit = uint32(min(left, server.MaxList))
		res, err := call(cmd.Context(), c, c.ListKeys, req)
		if err != nil {
			return err
		}
		if a.json() {
			if err := printMessages(a, res.GetKeys()); err != nil {
				return err
			}
		}
		keys = append(keys, res.GetKeys()...)
		left -= len(res.GetKeys())
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if !a.json() {
		if err := a.showKeyRows(keys); err != nil {
			return err
		}
	}
	if req.GetPageToken() != "" {
		a.note("there are more; --limit shows more, and --after %s the next ones", req.GetPageToken())
	}
	return nil
}

// oldestWords shows for how long the oldest task behind a head has been ready, or when it will be.
func oldestWords(k *taskenginev1.OrderingKey, now time.Time) string {
	at := k.GetOldestReadyAt()
	if at.AsTime().After(now) {
		return "in " + units.Brief(at.AsTime().Sub(now))
	}
	return age(now, at)
}

// showKeyRows writes ordering keys as rows.
func (a *app) showKeyRows(keys []*taskenginev1.OrderingKey) error {
	now := time.Now()
	rows := make([][]string, len(keys))
	for i, k := range keys {
		h := k.GetHead()
		rows[i] = []string{k.GetKey(), h.GetId(), h.GetType(), h.GetState(), behindWords(k), oldestWords(k, now), h.GetError()}
	}
	return a.printTable([]string{"KEY", "HEAD", "TYPE", "STATE", "BEHIND", "OLDEST", "ERROR"}, rows, "OLDEST", "TYPE")
}
