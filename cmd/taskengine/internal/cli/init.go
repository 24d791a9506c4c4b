package cli

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/newnode"
)

func newInit(a *app) *cobra.Command {
	var answers newnode.Answers
	var yes, force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write the configuration of a new node",
		Long: `Write a configuration with comments to FILE (./taskengine.yaml), and a handler program to a
folder beside it. On a terminal the command asks for the answers that no flag gives; --yes, or
without a terminal, it takes their defaults. It overwrites nothing, unless --force lets it
replace FILE. It ends with the commands that start the node.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ownConfig
			if len(args) > 0 {
				file = args[0]
			}
			if err := newnode.CheckFree(file, force); err != nil {
				return err // before the questions
			}
			tokensGiven := cmd.Flags().Changed("tokens")
			if a.inTTY && !yes {
				q := questions{out: a.stderr, in: a.stdin, given: cmd.Flags().Changed}
				if err := q.ask(&answers); err != nil {
					return err
				}
				tokensGiven = true
			}
			answers.Complete()
			if !tokensGiven {
				answers.Tokens = newnode.NeedsTokens(answers.Listen)
			}
			made, err := newnode.Write(file, answers, force, a.env)
			if err != nil {
				return err
			}
			return a.showNewNode(made, nextCommands(made, answers))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&answers.Storage, "storage", "", "where tasks are kept: "+strings.Join(newnode.Storages(), ", "))
	flags.StringVar(&answers.Path, "path", "", "the folder of pebble or bolt, relative to FILE; ./data if it is not given")
	flags.StringVar(&answers.URLEnv, "url-env", "", "the environment variable that has the URL of the database of postgres; DATABASE_URL if it is not given")
	flags.BoolVar(&answers.Several, "several", false, "several nodes share the tasks; for postgres")
	flags.StringVar(&answers.Handler, "handler", "", "the language of a handler program, which is written as by handler new: "+strings.Join(newnode.Handlers(), ", "))
	flags.StringVar(&answers.Name, "name", "", "the name of the handler, its folder and its type of tasks; hello if it is not given")
	flags.StringVar(&answers.Listen, "listen", "", "the address of the API as host:port, such as 127.0.0.1:7420, or :7420 for every interface")
	flags.BoolVar(&answers.Tokens, "tokens", false, "clients need tokens; without it they do if --listen is not loopback")
	flags.BoolVarP(&yes, "yes", "y", false, "ask nothing: take the defaults for the answers that no flag gives")
	flags.BoolVar(&force, "force", false, "replace FILE if it is there")
	return cmd
}

// initJSON is the line of -o json, described in docs/cli.md.
type initJSON struct {
	File   string   `json:"file"`
	Folder string   `json:"folder,omitempty"`
	Next   []string `json:"next"`
}

// showNewNode shows what was written, and the commands to type next.
func (a *app) showNewNode(made newnode.Made, next []string) error {
	if a.json() {
		return a.printJSON(initJSON{made.File, made.Folder, next})
	}
	for _, path := range []string{made.File, made.Folder} {
		if path == "" {
			continue
		}
		if _, err := fmt.Fprintln(a.stdout, path); err != nil {
			return err
		}
	}
	if made.Folder != "" {
		a.note("%s says how the handler is built and tested", filepath.Join(made.Folder, "README.md"))
	}
	a.note("next, the last one in another shell:\n  %s", strings.Join(next, "\n  "))
	return nil
}

// nextCommands returns the commands that start a new node, and the first one for its tasks.
func nextCommands(made newnode.Made, answers newnode.Answers) (next []string) {
	file, client := "", ""
	if made.File != ownConfig {
		file = " -c " + shellWord(made.File)
	}
	if answers.Storage == newnode.Postgres {
		next = append(next, "taskengine migrate apply"+file)
	}
	if answers.Tokens {
		next = append(next, "(umask 077; taskengine token create me --role admin"+file+" > token)")
		client = " --token-file token"
	}
	if host, port, err := net.SplitHostPort(answers.Listen); err == nil && answers.Listen != defaultAddress {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		if at := net.JoinHostPort(host, port); at != defaultAddress {
			client += " --address " + shellWord(at)
		}
	}
	next = append(next, "taskengine run"+file)
	if answers.Handler == newnode.NoHandler {
		return append(next, "taskengine task list"+client)
	}
	return append(next, "taskengine task add "+answers.Name+` --data '{"name": "Ada"}' --wait`+client)
}

// shellWord returns a word as a shell reads it, with quotes if it needs them.
func shellWord(word string) string {
	plain := func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:", r) {
			return -1
		}
		return r
	}
	if word != "" && strings.Map(plain, word) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
