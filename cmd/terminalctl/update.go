package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/device/control"
	"grattoir/firmware/update"
	"grattoir/validate/manifest"
)

func updateCommand() *cobra.Command {
	return cli.Group("update", "See, check and install the terminal's own software", updateStatusCommand(), updateCheckCommand(), updateInstallCommand(), updateAgentCommand())
}

// Where the image has things.
const (
	updateDir   = "/var/lib/grattoir-update"
	releaseFile = "/usr/lib/grattoir/release"
	releaseKeys = "/usr/lib/grattoir/update-keys"
	restartFile = "/run/grattoir-update/restart"
)

// updateFlags are what the update commands share.
type updateFlags struct {
	dir, keys, release string
	asJSON             bool
}

func (f *updateFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "agent", updateDir, "the agent's `folder`")
	jsonFlag(cmd, &f.asJSON)
}

func (f *updateFlags) trust(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.keys, "keys", releaseKeys, "`folder` of the public keys (*.pub) of which one must have signed an update")
	cmd.Flags().StringVar(&f.release, "release", releaseFile, "`file` that says what runs here")
}

// ring reads the release keys. They are the image's and not the enrolment's: central says
// which terminal gets what, and cannot make software.
func (f *updateFlags) ring() (manifest.Keys, error) {
	paths, err := filepath.Glob(filepath.Join(f.keys, "*.pub"))
	var keys []string
	for _, path := range paths {
		key, failed := cli.ReadPublicKey(path)
		err = errors.Join(err, failed)
		keys = append(keys, key)
	}
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("no release key (*.pub) lies in %s: name their folder with --keys", f.keys)
	}
	if err != nil {
		return manifest.Keys{}, err
	}
	return manifest.NewKeys(1, keys...)
}

// state is the agent's, or that of a terminal on which none has worked yet.
func (f *updateFlags) state() (update.State, error) {
	s, err := update.ReadState(f.dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	running, err := readRelease(f.release)
	return update.State{Format: 1, Phase: update.Idle, Running: running, Best: running.Number}, err
}

// readRelease reads what the image says of itself: lines "version V", "number N" and "board B".
func readRelease(path string) (r update.Release, err error) {
	text, err := cli.ReadBounded(path, 4<<10)
	if err != nil {
		return r, fmt.Errorf("what runs here is not known: %w", err)
	}
	if _, err := fmt.Sscanf(string(text), "version %s\nnumber %d\nboard %s\n", &r.Version, &r.Number, &r.Board); err != nil || r.Number < 1 {
		return r, fmt.Errorf("%s: want the lines version, number and board, as the image has them", path)
	}
	return r, nil
}

type updateStatus struct {
	update.State
	Agent bool `json:"agent"` // one is running
}

func updateStatusCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell what runs, what is on its way, and what came of the last update",
		Long: `Tell what runs, what is on its way, and what came of the last update. Exit status 3: a person should look,
because the last update failed or there is no second slot to fall back to.`,
		Example: `  terminalctl update status --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.state()
			if err != nil {
				return err
			}
			a := updateStatus{s, update.Alive(f.dir)}
			if f.asJSON {
				err = cli.JSON(cmd.OutOrStdout(), a)
			} else {
				err = a.print(cmd.OutOrStdout())
			}
			if err == nil && (s.Fault != "" || s.Last != nil && (s.Last.Outcome == update.RolledBack || s.Last.Outcome == update.Failed)) {
				return cli.Exit(cli.Person, nil)
			}
			return err
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.release, "release", releaseFile, "`file` that says what runs here")
	return cmd
}

func (a updateStatus) print(w io.Writer) error {
	fmt.Fprintf(w, "runs %s (number %d) for %s; newest that ran well: %d, floor: %d\n", a.Running.Version, a.Running.Number, a.Running.Board, a.Best, a.Floor)
	for _, s := range a.Slots {
		state, here := "can be booted", ""
		if !s.Bootable {
			state = "cannot be booted"
		}
		if s.Booted {
			here = ", runs"
		}
		fmt.Fprintf(w, "slot %s: %s%s\n", s.BootName, state, here)
	}
	if u := a.Update; u != nil {
		fmt.Fprintf(w, "update %s (number %d, from %s): %s", u.Version, u.Number, u.Source, a.Phase)
		if u.Percent > 0 {
			fmt.Fprintf(w, ", %d %%", u.Percent)
		}
		if u.Why != "" {
			fmt.Fprintf(w, ": %s", cli.Line(u.Why))
		}
		fmt.Fprintln(w)
	}
	if l := a.Last; l != nil {
		fmt.Fprintf(w, "last update: %s (number %d): %s, %s", l.Version, l.Number, l.Outcome, l.At.Format(withZone))
		if l.Reason != "" {
			fmt.Fprintf(w, ": %s", cli.Line(l.Reason))
		}
		fmt.Fprintln(w)
	}
	if a.Fault != "" {
		fmt.Fprintf(w, "fault: %s\n", cli.Line(a.Fault))
	}
	if !a.Agent {
		fmt.Fprintln(w, "no update agent is running: nothing is installed until one does")
	}
	return nil
}

// checked is an update that was looked at.
type checked struct {
	Version string `json:"version"`
	Number  int64  `json:"number"`
	Floor   int64  `json:"floor"`
	Board   string `json:"board"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Refused string `json:"refused"` // why it may not be installed here, "" where it may
}

// newestOf is the update at a path: a bundle, its manifest, or the newest of a folder.
func newestOf(path string, ring manifest.Keys) (update.Found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return update.Found{}, err
	}
	if !info.IsDir() {
		stem := strings.TrimSuffix(strings.TrimSuffix(path, update.ManifestSuffix), update.BundleSuffix)
		return update.OpenFound(stem+update.ManifestSuffix, ring)
	}
	list, errs := update.Look(path, ring)
	if len(list) > 0 {
		return list[0], nil
	}
	if len(errs) > 0 {
		return update.Found{}, errors.Join(errs...)
	}
	return update.Found{}, fmt.Errorf("%s: no update (*%s with its *%s) lies there", path, update.ManifestSuffix, update.BundleSuffix)
}

// look verifies an update and holds it against the rules.
func (f *updateFlags) look(path string, again bool) (update.Found, checked, error) {
	ring, err := f.ring()
	if err != nil {
		return update.Found{}, checked{}, err
	}
	u, err := newestOf(path, ring)
	if err != nil {
		return u, checked{}, err
	}
	s, err := f.state()
	if err != nil {
		return u, checked{}, err
	}
	if again {
		s.Bad = slices.DeleteFunc(s.Bad, func(sum string) bool { return sum == u.SHA256 })
	}
	a := checked{u.Version, u.Number, u.Floor, u.Board, u.Size, u.SHA256, ""}
	if err := update.Judge(u.Manifest, s); err != nil {
		a.Refused = err.Error()
	}
	return u, a, nil
}

func (a checked) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.JSON(w, a)
	}
	_, err := fmt.Fprintf(w, "%s, number %d, for %s: %d bytes, SHA-256 %.16s...\n", a.Version, a.Number, a.Board, a.Size, a.SHA256)
	if a.Refused == "" {
		fmt.Fprintln(w, "it may be installed here")
	}
	return err
}

func updateCheckCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "check FILE|DIR",
		Short: "Verify an update and say whether it may be installed here",
		Long: `Verify an update against the release keys of this image, read its bundle whole, and say whether it may be installed
here. It changes nothing. Of a folder the newest is taken. Exit status 4: a rule keeps it out.`,
		Example: `  terminalctl update check /media/usb/grattoir-pi-1.4.0.raucb
  terminalctl update check /media/usb`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, a, err := f.look(args[0], false)
			if err == nil {
				err = u.Verify(cmd.Context())
			}
			if err != nil {
				return err
			}
			if err := a.print(cmd.OutOrStdout(), f.asJSON); err != nil || a.Refused == "" {
				return err
			}
			return cli.Exit(cli.Refused, errors.New(a.Refused))
		},
	}
	f.flags(cmd)
	f.trust(cmd)
	return cmd
}

func updateInstallCommand() *cobra.Command {
	var f updateFlags
	var again bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "install FILE|DIR",
		Short: "Hand an update to the agent, as from a USB stick",
		Long: `Verify an update and copy it into the agent's inbox, piece by piece; the stick can be pulled out then. The agent
installs it beside what runs, and restarts when the counter is idle. With --wait the command follows it until the
restart, or its end.`,
		Example: `  terminalctl update install /media/usb
  terminalctl update install grattoir-pi-1.4.0.raucb --wait 10m`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, a, err := f.look(args[0], again)
			if err != nil {
				return err
			}
			if a.Refused != "" {
				return cli.Exit(cli.Refused, errors.Join(a.print(cmd.OutOrStdout(), f.asJSON), errors.New(a.Refused)))
			}
			bar := cli.NewProgress(os.Stderr, "bytes", u.Size)
			if err := update.Put(cmd.Context(), u, filepath.Join(f.dir, "inbox"), update.PutOptions{Again: again, Progress: bar.Add}); err != nil {
				return err
			}
			if err := a.print(cmd.OutOrStdout(), f.asJSON); err != nil {
				return err
			}
			if !update.Alive(f.dir) {
				return cli.Exit(cli.Person, errors.New("no update agent is running: it is installed once one does (systemctl start grattoir-update)"))
			}
			if wait == 0 {
				return nil
			}
			return f.follow(cmd.Context(), cmd.ErrOrStderr(), u.SHA256, wait)
		},
	}
	cmd.Flags().BoolVar(&again, "again", false, "also where it failed on this terminal before")
	cmd.Flags().DurationVar(&wait, "wait", 0, "follow it for so long, until the restart or its end")
	f.flags(cmd)
	f.trust(cmd)
	return cmd
}

// follow tells where an update stands until it waits for the restart, or has ended.
func (f *updateFlags) follow(ctx context.Context, w io.Writer, sum string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	said := ""
	for {
		s, err := f.state()
		if err != nil {
			return err
		}
		if l := s.Last; l != nil && l.SHA256 == sum && s.Update == nil && l.Outcome != update.Good {
			return cli.Exit(cli.Person, fmt.Errorf("%s: %s", l.Outcome, l.Reason))
		}
		if u := s.Update; u != nil && u.SHA256 == sum {
			if text := strings.TrimSpace(fmt.Sprintf("%s %s", s.Phase, u.Why)); text != said {
				said = text
				fmt.Fprintln(w, cli.Line(text))
			}
			if s.Phase == update.Waiting && u.Why != "" {
				return nil // it is in: the counter decides when
			}
		}
		select {
		case <-ctx.Done():
			return cli.Exit(cli.Person, fmt.Errorf("it goes on: terminalctl update status (it was %s)", s.Phase))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func updateAgentCommand() *cobra.Command {
	var f updateFlags
	var socket, bus, restart string
	var inboxes []string
	var reserve int64
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Install updates and see them proven; a service runs this",
		Long: `Take updates from the inbox (terminalctl update install) and from the folders of --central, in which terminald puts
what central offers; install them with RAUC beside what runs; restart when the counter gives leave; mark the new
version good once the daemon is active, the ledger verified and the devices there, or go back to the one before.
It needs no root: the bus's policy lets its user call RAUC, and a unit that watches the file of --restart-file
restarts the machine.`,
		Example: `  terminalctl update agent --central /var/lib/grattoir/updates`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			o, stop, err := f.agent(cmd.Context(), bus, socket, restart)
			if err != nil {
				return err
			}
			defer stop()
			for _, dir := range inboxes {
				o.Inboxes = append(o.Inboxes, update.Inbox{Dir: dir, Source: update.Central})
			}
			o.Reserve, o.Log = reserve<<20, log
			a, err := update.New(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(filepath.Dir(restart), "judging"), nil, 0o644); err != nil { // see units/grattoir-trial.service
				return errors.Join(err, a.Close())
			}
			log.Info("ready", "version", o.Running.Version, "number", o.Running.Number, "phase", a.State().Phase)
			return errors.Join(a.Run(cmd.Context()), a.Close())
		},
	}
	cmd.Flags().StringArrayVar(&inboxes, "central", nil, "`folder` in which terminald puts what central offers (can be given again)")
	cmd.Flags().StringVar(&bus, "bus", "", "`address` of the bus, where it is not the system's")
	cmd.Flags().StringVar(&restart, "restart-file", restartFile, "`file` that is made when the machine is to restart")
	cmd.Flags().Int64Var(&reserve, "reserve-mb", 64, "free space that copies leave, in `MB`")
	socketFlag(cmd, &socket)
	f.flags(cmd)
	f.trust(cmd)
	return cmd
}

// agent gathers what the agent works with.
func (f *updateFlags) agent(ctx context.Context, bus, socket, restart string) (o update.Options, stop func(), err error) {
	if o.Keys, err = f.ring(); err != nil {
		return o, nil, cli.Exit(cli.Usage, err)
	}
	if o.Running, err = readRelease(f.release); err != nil {
		return o, nil, cli.Exit(cli.Usage, err)
	}
	if o.Boot, err = uptime.Boot(); err != nil {
		return o, nil, err
	}
	rauc, err := update.Dial(ctx, bus)
	if err != nil {
		return o, nil, err
	}
	board, err := rauc.Compatible(ctx)
	if err == nil && board != o.Running.Board {
		err = fmt.Errorf("RAUC is set up for %q and the image is for %q", board, o.Running.Board)
	}
	if err != nil {
		return o, nil, errors.Join(err, rauc.Close())
	}
	o.Dir, o.Installer, o.Counter, o.Uptime = f.dir, rauc, counterOf{newClient(socket)}, uptime.Since
	o.Inboxes = []update.Inbox{{Dir: filepath.Join(f.dir, "inbox"), Source: update.Stick}}
	o.Restart = func(context.Context) error { return os.WriteFile(restart, nil, 0o644) }
	return o, func() { _ = rauc.Close() }, nil
}

// counterOf is the daemon as the agent asks it.
type counterOf struct{ *control.Client }

// askTimeout bounds a question to the daemon: one that hangs has not answered.
const askTimeout = 10 * time.Second

func (c counterOf) Ready(ctx context.Context) (update.Readiness, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := c.Client.Ready(ctx)
	return update.Readiness{Active: time.Duration(r.ActiveMS) * time.Millisecond, Ledger: r.Ledger, Pending: r.Pending, Devices: r.Devices}, err
}

func (c counterOf) Pause(ctx context.Context, d time.Duration, must bool) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	l, err := c.AskRestart(ctx, d, must)
	return l.Granted, l.Why, err
}

func (c counterOf) Release(ctx context.Context) error { return c.Resume(ctx) }
