package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
)

func operatorCommand() *cobra.Command {
	return cli.Group("operator", "Who may work at this terminal",
		operatorAddCommand(), operatorListCommand(),
		operatorActCommand("suspend", "Take from an operator every right at this terminal", "is suspended", roster.Suspend),
		operatorActCommand("resume", "Give a suspended operator the rights back", "is active again", roster.Resume),
		operatorActCommand("unlock", "Give an operator new tries after too many wrong PINs", "has new tries", roster.Unlock),
		operatorPINCommand())
}

// roster is what these commands need of a terminal's operators: the daemon's socket while
// it runs, the file itself else. The owner's acts are the file's alone.
type roster interface {
	Operators(context.Context) ([]people.Operator, error)
	Add(context.Context, people.Credentials, people.Operator, people.PIN) error
	SetPIN(ctx context.Context, by people.Credentials, operator string, pin people.PIN) error
	Suspend(ctx context.Context, by people.Credentials, operator string) error
	Resume(ctx context.Context, by people.Credentials, operator string) error
	Unlock(ctx context.Context, by people.Credentials, operator string) error
	Close() error
}

// operatorFlags are those of every act.
type operatorFlags struct {
	config, by, pinFile string
	json                bool
}

// owner is what --by calls the machine's owner; no operator can have this id.
const owner = "owner"

func (f *operatorFlags) add(cmd *cobra.Command, acts bool) {
	cmd.Flags().StringVar(&f.config, "config", "/etc/grattoir/terminald.toml", "the terminal's configuration `file`")
	jsonFlag(cmd, &f.json)
	if acts {
		cmd.Flags().StringVar(&f.by, "by", "", "`id` of the operator who does it, with a PIN; or owner, for the machine's owner where no operator could")
		cmd.Flags().StringVar(&f.pinFile, "pin-file", "", "read the PINs from this `file`, or - for standard input, one a line: first that of --by, then the new one")
	}
}

// openRoster asks the daemon, which has the file open while it runs, or opens the file.
func openRoster(ctx context.Context, config string) (roster, error) {
	c, err := configs.LoadTerminal(config)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	d := daemonRoster{newClient(c.Socket)}
	if _, err := d.Operators(ctx); !errors.Is(err, control.ErrNoDaemon) && !errors.Is(err, terminal.ErrNoStaff) {
		return d, err
	}
	return openRosterFile(ctx, c)
}

func openRosterFile(ctx context.Context, c configs.Terminal) (roster, error) {
	// What another user makes here, even root, the daemon could not open.
	var info unix.Stat_t
	if err := unix.Stat(c.Data, &info); err != nil {
		return nil, fmt.Errorf("data folder %s: %w (make it for the daemon's user)", c.Data, err)
	}
	if me := os.Geteuid(); me != int(info.Uid) {
		return nil, cli.Usagef("the data folder %s belongs to user %d and you are %d: run it as the daemon's user, as in sudo -u grattoir", c.Data, info.Uid, me)
	}
	boot, err := uptime.Boot()
	if err != nil {
		return nil, err
	}
	moment := func() ledger.Moment { return ledger.Moment{Boot: boot, Mono: uptime.Since(), Device: time.Now()} }
	s, err := people.Open(ctx, people.Options{Path: c.People(), Terminal: c.Name, Moment: moment})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// daemonRoster is the operators through the daemon's socket.
type daemonRoster struct{ *control.Client }

// Close has nothing to close: each request has a connection of its own.
func (daemonRoster) Close() error { return nil }

// Operators lists everybody by id.
func (d daemonRoster) Operators(ctx context.Context) ([]people.Operator, error) {
	list, err := d.Client.Operators(ctx)
	if err != nil {
		return nil, heard(err)
	}
	var out []people.Operator
	for _, o := range list {
		failed := o.Failed
		if o.LockedOut {
			failed = max(failed, people.Tries)
		}
		out = append(out, people.Operator{ID: o.ID, Name: o.Name, Role: people.Role(o.Role), Suspended: o.Suspended, Failed: failed})
	}
	return out, nil
}

func (d daemonRoster) change(ctx context.Context, by people.Credentials, q control.OperatorChange) error {
	if by.IsOwner() {
		return fmt.Errorf("%w: the daemon is running and takes no act of the machine's owner: name an operator with --by, or stop it first", people.ErrOwner)
	}
	q.By, q.ByPIN = by.Operator, by.PIN.Digits()
	return heard(d.ChangeOperator(ctx, q))
}

// Add adds an operator.
func (d daemonRoster) Add(ctx context.Context, by people.Credentials, o people.Operator, pin people.PIN) error {
	return d.change(ctx, by, control.OperatorChange{Act: control.AddOperator, ID: o.ID, Name: o.Name, Role: string(o.Role), PIN: pin.Digits()})
}

// SetPIN gives an operator another PIN.
func (d daemonRoster) SetPIN(ctx context.Context, by people.Credentials, operator string, pin people.PIN) error {
	return d.change(ctx, by, control.OperatorChange{Act: control.SetOperatorPIN, ID: operator, PIN: pin.Digits()})
}

// Suspend takes an operator's rights.
func (d daemonRoster) Suspend(ctx context.Context, by people.Credentials, operator string) error {
	return d.change(ctx, by, control.OperatorChange{Act: control.SuspendOperator, ID: operator})
}

// Resume gives them back.
func (d daemonRoster) Resume(ctx context.Context, by people.Credentials, operator string) error {
	return d.change(ctx, by, control.OperatorChange{Act: control.ResumeOperator, ID: operator})
}

// Unlock gives new tries.
func (d daemonRoster) Unlock(ctx context.Context, by people.Credentials, operator string) error {
	return d.change(ctx, by, control.OperatorChange{Act: control.UnlockOperator, ID: operator})
}

// heardError is an error of the operators' file as the daemon told it.
type heardError struct {
	text string
	is   error
}

func (e *heardError) Error() string { return e.text }
func (e *heardError) Unwrap() error { return e.is }

// heard makes of what the daemon told the error that the file would have given.
func heard(err error) error {
	d, is := errors.AsType[*terminal.Denied](err)
	if !is {
		return err
	}
	known := people.Named(d.Code)
	if known == nil {
		return err
	}
	return &heardError{strings.TrimPrefix(d.Err.Error(), d.Code+": "), known}
}

// operatorError gives a refusal its exit code.
func operatorError(err error) error {
	for _, wrong := range []error{people.ErrOperator, people.ErrPIN, people.ErrUnknown} {
		if errors.Is(err, wrong) {
			return cli.Exit(cli.Usage, err)
		}
	}
	for _, refused := range []error{people.ErrWrong, people.ErrWait, people.ErrLockedOut, people.ErrTerminalLocked, people.ErrSuspended, people.ErrRole, people.ErrOwner, people.ErrExists, people.ErrWeakPIN} {
		if errors.Is(err, refused) {
			return cli.Exit(cli.Refused, err)
		}
	}
	return err
}

type operatorAnswer struct {
	OK       bool   `json:"ok"`
	Act      string `json:"act"`
	Operator string `json:"operator"`
	By       string `json:"by"`
}

// act opens the roster, asks for the PINs and does one thing to one operator.
func (f *operatorFlags) act(cmd *cobra.Command, name, id, done string, newPIN bool, do func(roster, people.Credentials, people.PIN) error) error {
	r, err := openRoster(cmd.Context(), f.config)
	if err != nil {
		return err
	}
	defer r.Close()
	if f.by == "" {
		f.by = owner
	}
	pins := pinSource{cmd: cmd, file: f.pinFile}
	by := people.Owner()
	if f.by != owner {
		pin, err := pins.next("PIN of "+f.by, false)
		if err != nil {
			return err
		}
		by = people.Credentials{Operator: f.by, PIN: pin}
	}
	var pin people.PIN
	if newPIN {
		if pin, err = pins.next("New PIN of "+id, true); err != nil {
			return err
		}
	}
	if err := pins.end(); err != nil {
		return err
	}
	if err := do(r, by, pin); err != nil {
		return operatorError(err)
	}
	if f.json {
		return cli.JSON(cmd.OutOrStdout(), operatorAnswer{true, name, id, f.by})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "operator %s %s\n", id, done)
	return err
}

func operatorAddCommand() *cobra.Command {
	var f operatorFlags
	var name, role string
	cmd := &cobra.Command{
		Use:   "add ID --name NAME --role clerk|manager|technician",
		Short: "Add an operator; the first one without --by",
		Long: `Add an operator. The first is added by the machine's owner: whoever runs this as the
daemon's user. Later ones need --by: a manager adds clerks and managers, a technician
anybody. PINs are asked for on the terminal or read from --pin-file, never from the command line.`,
		Example: `  terminalctl operator add anne --name "Anne Le Goff" --role manager
  terminalctl operator add 07 --name Luc --role clerk --by anne`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := people.Operator{ID: args[0], Name: name, Role: people.Role(role)}
			if err := o.Validate(); err != nil { // before anybody types a PIN
				return operatorError(err)
			}
			return f.act(cmd, "add", o.ID, "was added as "+role, true, func(r roster, by people.Credentials, pin people.PIN) error {
				return r.Add(cmd.Context(), by, o, pin)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the person's `name`, as pages show it")
	cmd.Flags().StringVar(&role, "role", "", "clerk, manager or technician")
	f.add(cmd, true)
	return cmd
}

func operatorPINCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "pin ID",
		Short: "Change an operator's PIN, and give new tries",
		Long: `Change a PIN. Without --by the operator does it, with the PIN in use. A manager gives
clerks a new one, a technician anybody, where the old one is forgotten.`,
		Example: `  terminalctl operator pin 07
  terminalctl operator pin 07 --by anne`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.by == "" {
				f.by = args[0]
			}
			return f.act(cmd, "pin", args[0], "has a new PIN", true, func(r roster, by people.Credentials, pin people.PIN) error {
				return r.SetPIN(cmd.Context(), by, args[0], pin)
			})
		},
	}
	f.add(cmd, true)
	return cmd
}

func operatorActCommand(name, short, done string, do func(roster, context.Context, people.Credentials, string) error) *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:     name + " ID --by OPERATOR",
		Short:   short,
		Example: "  terminalctl operator " + name + " 07 --by anne",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, name, args[0], done, false, func(r roster, by people.Credentials, _ people.PIN) error {
				return do(r, cmd.Context(), by, args[0])
			})
		},
	}
	f.add(cmd, true)
	return cmd
}

type operatorRow struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	Suspended bool   `json:"suspended"`
	LockedOut bool   `json:"locked_out"`
	Failed    int    `json:"failed"`
}

func operatorListCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the operators with their roles and states",
		Example: "  terminalctl operator list",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := openRoster(cmd.Context(), f.config)
			if err != nil {
				return err
			}
			defer r.Close()
			list, err := r.Operators(cmd.Context())
			if err != nil {
				return err
			}
			if f.json {
				rows := []operatorRow{}
				for _, o := range list {
					rows = append(rows, operatorRow{o.ID, o.Name, string(o.Role), o.Suspended, o.LockedOut(), o.Failed})
				}
				return cli.JSON(cmd.OutOrStdout(), rows)
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no operators yet: terminalctl operator add ID --name NAME --role manager")
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tROLE\tSTATE\tNAME")
			for _, o := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", o.ID, o.Role, stateOf(o), o.Name)
			}
			return w.Flush()
		},
	}
	f.add(cmd, false)
	return cmd
}

func stateOf(o people.Operator) string {
	switch {
	case o.Suspended:
		return "suspended"
	case o.LockedOut():
		return "locked out"
	case o.Failed > 0:
		return fmt.Sprintf("active, %d wrong PINs", o.Failed)
	}
	return "active"
}

// maxPINFile bounds a file of PINs: two lines.
const maxPINFile = 1 << 10

// pinSource asks for PINs on the terminal, with no echo, or reads them from a file.
type pinSource struct {
	cmd   *cobra.Command
	file  string // "" asks, "-" is standard input
	read  bool
	lines []string
}

// next gives the next PIN. A new one is asked for twice where a person types it.
func (p *pinSource) next(what string, isNew bool) (people.PIN, error) {
	text, err := p.line(what)
	if err != nil {
		return people.PIN{}, err
	}
	pin, err := people.ParsePIN(text)
	if err != nil {
		return people.PIN{}, cli.Usagef("%s: %w", what, err)
	}
	if !isNew || p.file != "" {
		return pin, nil
	}
	text, err = p.line(what + ", again")
	if err != nil {
		return people.PIN{}, err
	}
	if again, err := people.ParsePIN(text); err != nil || again != pin {
		return people.PIN{}, cli.Usagef("%s: the two are not the same", what)
	}
	return pin, nil
}

func (p *pinSource) line(what string) (string, error) {
	if p.file == "" {
		return p.ask(what)
	}
	if !p.read {
		if err := p.load(); err != nil {
			return "", err
		}
	}
	if len(p.lines) == 0 {
		return "", cli.Usagef("%s: the line with it is missing in --pin-file", what)
	}
	text := p.lines[0]
	p.lines = p.lines[1:]
	return text, nil
}

// end finds lines too many: PINs may have been given in another order than they are read in.
func (p *pinSource) end() error {
	if len(p.lines) > 0 {
		return cli.Usagef("--pin-file has %d lines too many: it is first the PIN of --by, if there is one, then the new one", len(p.lines))
	}
	return nil
}

func (p *pinSource) load() error {
	in := p.cmd.InOrStdin()
	if p.file != "-" {
		f, err := os.Open(p.file)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			return errors.Join(err, cli.Usagef("others can read %s: chmod 600 it, or give the PINs on standard input with --pin-file -", p.file))
		}
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxPINFile+1))
	if err != nil {
		return err
	}
	if len(raw) > maxPINFile {
		return cli.Usagef("--pin-file has more than %d bytes: want one PIN a line", maxPINFile)
	}
	p.read = true
	if text := strings.TrimSpace(string(raw)); text != "" {
		p.lines = strings.Split(text, "\n")
	}
	return nil
}

func (p *pinSource) ask(what string) (string, error) {
	text, err := cli.AskHidden(p.cmd.Context(), p.cmd.ErrOrStderr(), what)
	if errors.Is(err, cli.ErrNoTerminal) {
		return "", cli.Usagef("%w to type a PIN on: use --pin-file FILE, or --pin-file - for standard input", err)
	}
	return text, err
}
