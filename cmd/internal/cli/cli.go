// Package cli holds what the three programs share at the command line: the exit
// codes, decided here and nowhere else, the way an answer is printed, and the
// progress bar. Programs call Main and nothing below main exits.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"grattoir/validate"
)

// Exit codes of every command. Scripts read them, so they never change.
const (
	Done    = 0 // done, or pay
	Failed  = 1 // failed, or could not tell
	Usage   = 2 // wrong usage
	Person  = 3 // done but a person is needed: refer, again, findings
	Refused = 4 // refused by a rule: refuse, incomplete
)

// Error is an error or a finished answer that ends the program with a code of
// its own. A nil Err prints nothing: the answer has been printed already.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Exit ends the command with code. Err may be nil when the answer is printed.
func Exit(code int, err error) error {
	if code == Done && err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Usagef is an error in the words typed by the user.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// VerdictCode is the exit code of a verdict. The zero Verdict is no pay.
func VerdictCode(v validate.Verdict) int {
	switch v.Outcome {
	case validate.Pay:
		return Done
	case validate.Refer, validate.Again:
		return Person
	case validate.Refuse:
		return Refused
	}
	return Failed
}

// Main runs root under a context that SIGINT and SIGTERM end, and returns the exit code.
// A second signal ends the program at once, which the ledger makes safe.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // the next signal has its default effect
	}()
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, number, _ := strings.Cut(err.Error(), ": strconv.")
		if number != "" {
			text += ": want a whole number"
		}
		return Usagef("%s\nTry: %s --help", text, cmd.CommandPath())
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return Done
	}
	var coded *Error
	if errors.As(err, &coded) {
		if coded.Err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), lines(coded.Err))
		}
		return coded.Code
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), lines(err))
	return Failed
}

// SmallHeap makes the collector keep what a program holds close to what it needs: a
// quarter more, where Go's usual is twice. A daemon on a terminal of 512 MB holds much for
// long (40 blocks' proofs are 12 MB) and makes little garbage, so it costs no time that
// anybody waits for.
func SmallHeap() { debug.SetGCPercent(25) }

// Line makes a text safe on one line: nothing is left in it that a terminal obeys, or that
// makes a second line look like the program's own. Names of files come from anywhere.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// lines is Line for an error, whose lines are its own.
func lines(err error) string {
	list := strings.Split(err.Error(), "\n")
	for i, text := range list {
		list[i] = Line(text)
	}
	return strings.Join(list, "\n")
}

// Args turns cobra's argument check into a usage error that shows the example.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usagef("%s after %s; it is written: %s\nTry: %s --help", counted(len(args)), cmd.Name(), cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}

func counted(words int) string {
	switch words {
	case 0:
		return "nothing stands"
	case 1:
		return "1 word stands"
	}
	return fmt.Sprintf("%d words stand", words)
}

// child refuses a word that is no command of a group, and names what is near to it.
func child(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	if list := cmd.SuggestionsFor(args[0]); len(list) > 0 {
		near = ", did you mean " + strings.Join(list, " or ") + "?"
	}
	return Usagef("%.40q is no command of %s%s\nTry: %s --help", args[0], cmd.CommandPath(), near, cmd.CommandPath())
}

// Group is a command that only holds others: called by itself or with a word
// it does not know, it is wrong usage and says which words there are.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: child, SuggestionsMinimumDistance: 2}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_ = cmd.Usage()
		return Usagef("%s needs one of the commands above", cmd.CommandPath())
	}
	cmd.AddCommand(children...)
	for _, c := range children { // a group's example is the first of each of its commands
		first, _, _ := strings.Cut(c.Example, "\n")
		cmd.Example = strings.TrimPrefix(cmd.Example+"\n"+first, "\n")
	}
	return cmd
}

// JSON prints v as indented JSON with a final newline.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Progress is a progress bar on a terminal and a plain line every ten percent elsewhere.
type Progress struct {
	bar   *progressbar.ProgressBar
	out   io.Writer
	what  string
	total int64
	done  int64
	next  int64
}

// NewProgress counts to total units of what. It writes to out, a terminal or not.
func NewProgress(out *os.File, what string, total int64) *Progress {
	p := &Progress{out: out, what: what, total: total, next: total / 10}
	if term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(out),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionOnCompletion(func() { fmt.Fprintln(out) }),
		)
	}
	return p
}

// Add counts n more units.
func (p *Progress) Add(n int64) {
	p.done += n
	if p.bar != nil {
		_ = p.bar.Add64(n)
		return
	}
	for p.total >= 10 && p.next <= p.total && p.done >= p.next {
		fmt.Fprintf(p.out, "%s: %d of %d\n", p.what, p.next, p.total)
		p.next += p.total / 10
	}
}

// pipePatience is how long a pipe or a device may take to say what is in it.
const pipePatience = 5 * time.Second

// ReadBounded reads a whole file of at most limit bytes. A pipe is read too, as a shell
// gives one, but none can keep the program waiting: with nobody at its other end it is
// empty, with somebody who says nothing it fails after a while.
func ReadBounded(name string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	_ = file.SetReadDeadline(time.Now().Add(pipePatience)) // a regular file has none and needs none
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes: this is another kind of file", name, limit)
	}
	return text, nil
}
