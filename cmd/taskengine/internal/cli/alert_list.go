package cli

import (
	"time"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newAlertList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the alerts that fire, the silences, and the notifications that no target has accepted yet",
		Long: `List the alerts that fire, the ended alerts without a notification of their end, the silences,
and the notifications that no target has accepted yet: of all nodes that share the store.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListAlerts, &taskenginev1.ListAlertsRequest{})
				if err != nil {
					return err
				}
				return a.showAlerts(res)
			})
		},
	}
}

// showAlerts writes alerts, silences and unsent notifications.
func (a *app) showAlerts(res *taskenginev1.ListAlertsResponse) error {
	if a.json() {
		return a.printMessage(res)
	}
	now := time.Now()
	rows := make([][]string, len(res.GetAlerts()))
	for i, one := range res.GetAlerts() {
		rows[i] = []string{one.GetRule(), one.GetStatus(), age(now, one.GetSince()), one.GetSummary(), alertWords(one)}
	}
	sheets := []sheet{{head: []string{"RULE", "STATUS", "SINCE", "ALERT", "NOTIFIED"}, rows: rows}}
	if len(res.GetSilences()) > 0 {
		sheets = append(sheets, a.silenceSheet(res.GetSilences()))
	}
	if len(res.GetUnsent()) == 0 {
		return a.printSheets(sheets...)
	}
	rows = make([][]string, len(res.GetUnsent()))
	for i, one := range res.GetUnsent() {
		rows[i] = []string{one.GetTarget(), age(now, one.GetAt()), one.GetRule(), one.GetSummary()}
	}
	return a.printSheets(append(sheets, sheet{head: []string{"UNSENT TO", "AGE", "RULE", "ALERTS"}, rows: rows})...)
}
