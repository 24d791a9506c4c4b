package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskSignal(a *app) *cobra.Command {
	req := new(taskenginev1.SignalRequest)
	var data string
	cmd := &cobra.Command{
		Use:   "signal ID NAME | --type TYPE --key KEY NAME",
		Short: "Send a signal to a task that waits for it",
		Long: `Send a signal to a task. A task that waits for a signal of this name goes on with it.
The outcome is written: woke, kept, repeated (the task got the signal of this --request-id before),
dropped (the task does not wait for it), no_room (it cannot keep another one) or ended (the task has ended).`,
		Args: func(_ *cobra.Command, args []string) error {
			byKey := req.GetType() != "" || req.GetKey() != "" || req.GetOrderingKey() != ""
			switch {
			case !byKey && len(args) != 2 || byKey && len(args) != 1:
				return errors.New("want an ID and the NAME of a signal, or --type, --key and the NAME")
			case byKey && (req.GetType() == "" || req.GetKey() == ""):
				return errors.New("--type and --key go together")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req.Name = args[len(args)-1]
			if data != "" {
				if req.Data, err = readData(data, a.stdin); err != nil {
					return err
				}
			}
			return a.with(func(c *client) error {
				if len(args) == 2 {
					if req.Id, err = c.taskID(cmd.Context(), args[0]); err != nil {
						return err
					}
				}
				res, err := call(cmd.Context(), c, c.Signal, req)
				switch {
				case err != nil && req.GetId() != "":
					return aboutTask(req.GetId(), err)
				case err != nil:
					return err
				case a.json():
					return a.printJSON(messageJSON(res))
				}
				_, err = fmt.Fprintln(a.stdout, clean(res.GetOutcome()))
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Type, "type", "", "to the task with this type and --key")
	flags.StringVar(&req.Key, "key", "", "to the task with this key")
	flags.StringVar(&req.OrderingKey, "ordering-key", "", "the ordering key of the task with --key, if it has one")
	flags.StringVar(&data, "data", "", "for the handler: JSON, or @FILE or - for the bytes of a file or of standard input")
	flags.BoolVar(&req.Keep, "keep", false, "a task that does not wait for it keeps it until it does; otherwise it is dropped")
	flags.StringVar(&req.RequestId, "request-id", "", "a UUID; the task gets the signal once however often it is sent")
	return cmd
}
