package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program is a command with a command below it.
func program() *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "Do things", Long: "Do things.\n\nExit codes:\n  0  ok\n  1, 2  not ok", Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().String("where", "", "an `ADDRESS`")
	sub := &cobra.Command{Use: "sub ID", Short: "Look at one", Long: ".hidden is no macro, and \\n no escape.\n\n    an example -x \"y\"\n\nThe end.", Run: func(*cobra.Command, []string) {}}
	sub.Flags().BoolP("all", "a", false, "all of them")
	root.AddCommand(sub, &cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}})
	return root
}

func TestEachCommandHasAPage(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	n, err := Write(folder, program(), "v1")
	files, readErr := os.ReadDir(folder)
	if err != nil || readErr != nil || n != 2 || len(files) != 2 || files[0].Name() != "prog-sub.1" || files[1].Name() != "prog.1" {
		t.Fatalf("there are %d pages: %v, %v, %v", n, files, err, readErr)
	}
	got, err := os.ReadFile(filepath.Join(folder, "prog-sub.1"))
	if err != nil {
		t.Fatal(err)
	}
	want := `.TH "PROG\-SUB" "1" "" "taskengine v1" "taskengine"
.SH "NAME"
prog-sub \- Look at one
.SH "SYNOPSIS"
\fBprog sub\fR ID [flags]
.SH "DESCRIPTION"
\&.hidden is no macro, and \en no escape.
.PP
.nf
    an example \-x "y"

.fi
The end.
.SH "OPTIONS"
.TP
\fB\-a\fR, \fB\-\-all\fR
all of them
.SH "GLOBAL OPTIONS"
.TP
\fB\-\-where\fR \fIADDRESS\fR
an ADDRESS
.SH "SEE ALSO"
\fBprog\fR(1)
`
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}

func TestThePageOfTheProgramHasTheExitCodesAndTheCommands(t *testing.T) {
	page := Pages(program(), "v1")[0].Text
	for _, want := range []string{".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\nok\n.TP\n\\fB1, 2\\fR\nnot ok\n", ".SH \"COMMANDS\"\n.TP\n\\fBsub\\fR\nLook at one\n", "\\fBprog\\-sub\\fR(1)"} {
		if !strings.Contains(page, want) {
			t.Errorf("it lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "secret") {
		t.Error("a hidden command is in it")
	}
}
