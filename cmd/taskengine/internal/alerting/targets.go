package alerting

import (
	"log/slog"

	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/config"
)

// targetOf returns the target that a configuration describes.
func targetOf(t config.AlertTarget, log *slog.Logger) target.Target {
	switch {
	case t.Webhook != nil:
		return target.NewWebhook(t.Webhook.URL.Reveal(), reveal(t.Webhook.Headers), t.Webhook.Timeout)
	case t.Exec != nil:
		return target.NewExec(target.ExecConfig{
			Command: t.Exec.Command, Dir: t.Exec.Dir, Env: reveal(t.Exec.Env), PassEnv: t.Exec.PassEnv,
			Timeout: t.Exec.Timeout, Grace: t.Exec.Grace, Log: log,
		})
	case t.SMTP != nil:
		how := map[string]target.Encryption{config.MailStartTLS: target.StartTLS, config.MailTLS: target.TLS, config.MailPlain: target.Plain}
		return target.NewSMTP(target.SMTPConfig{
			Server: t.SMTP.Server, Encryption: how[t.SMTP.TLS], User: t.SMTP.User, Password: t.SMTP.Password.Reveal(),
			From: t.SMTP.From, To: t.SMTP.To, Timeout: t.SMTP.Timeout, Log: log,
		})
	}
	return target.Log{To: log}
}

func reveal(texts map[string]config.Text) map[string]string {
	plain := make(map[string]string, len(texts))
	for k, t := range texts {
		plain[k] = t.Reveal()
	}
	return plain
}
