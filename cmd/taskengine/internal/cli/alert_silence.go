package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newAlertSilence(a *app) *cobra.Command {
	var length duration
	var comment string
	cmd := &cobra.Command{
		Use:   "silence [RULE] [LABEL=VALUE...]",
		Short: "Keep alerts out of notifications for a time, on all nodes",
		Long: `Keep the alerts of a rule, or the alerts with all given labels, out of notifications for a time,
on all nodes and over restarts. A value with * at its end matches by its beginning. Labels are
type, limit, handler, path, schedule, key, source and node. Resolved alerts are reported all the
same.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("neither RULE nor LABEL=VALUE is given; want taskengine alert silence [RULE] [LABEL=VALUE...] --for 2h")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rule, labels, err := parseSilence(args)
			if err != nil {
				return err
			}
			if length == 0 {
				return exit.Errorf(exit.Usage, "--for is not given; want how long the silence lasts, such as 2h")
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SilenceAlerts, &taskenginev1.SilenceAlertsRequest{
					Rule: rule, Labels: labels, For: length.message(), Comment: comment, By: operator(),
				})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res.GetSilence())
				}
				return a.showSilences(res.GetSilence())
			})
		},
	}
	cmd.Flags().Var(&length, "for", "how long the silence lasts, such as 2h or 1d")
	cmd.Flags().StringVar(&comment, "comment", "", "the reason, for other operators")
	return cmd
}

func newAlertUnsilence(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "unsilence ID",
		Short: "End a silence of alerts",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				if _, err := call(cmd.Context(), c, c.UnsilenceAlerts, &taskenginev1.UnsilenceAlertsRequest{Id: args[0]}); err != nil {
					return err
				}
				a.note("the silence %s has ended: its alerts are reported again", clean(args[0]))
				return nil
			})
		},
	}
}
