package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"grattoir/cmd/internal/cli"
	"grattoir/firmware/flash"
)

func flashCommand() *cobra.Command {
	return cli.Group("flash", "Write a terminal's card from a signed image, and prove what is on it", flashListCommand(), flashWriteCommand(), flashVerifyCommand())
}

func flashListCommand() *cobra.Command {
	var system flash.System
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List this machine's drives, and say of each whether it may be written and why not",
		Example: `  terminalctl flash list
  terminalctl flash list --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := system.Drives()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			return printDrives(cmd.OutOrStdout(), list)
		},
	}
	systemFlag(cmd, &system)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// systemFlag is for tests: a folder with sys, proc and dev in it.
func systemFlag(cmd *cobra.Command, s *flash.System) {
	cmd.Flags().StringVar(&s.Root, "system-root", "", "a `folder` with sys, proc and dev of the system to look at")
	_ = cmd.Flags().MarkHidden("system-root")
}

func printDrives(w io.Writer, list []flash.Drive) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERIAL\tDRIVE\tSIZE\tMODEL\tMAY BE WRITTEN")
	for _, d := range list {
		var why []string
		for _, r := range d.Refused {
			why = append(why, r.Code+" "+r.Why)
		}
		answer := "yes"
		if len(why) > 0 {
			answer = "no: " + strings.Join(why, "; ")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(cli.Line(d.Serial), "-"), cli.Line(d.Name), amount(d.Size), cmp.Or(cli.Line(d.Model), "-"), cli.Line(answer))
	}
	return t.Flush()
}

// amount is bytes in the units that are printed on cards.
func amount(n int64) string {
	if n >= 1e10 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}

// flashing is what the two commands that take a card have in common.
type flashing struct {
	system             flash.System
	keys               []string
	serial, file       string
	state, operator    string
	fileSize           int64
	burnIn, unmount    bool
	asJSON, write, yes bool
}

func (f *flashing) flags(cmd *cobra.Command) {
	systemFlag(cmd, &f.system)
	cmd.Flags().StringArrayVar(&f.keys, "key", nil, "public key that signs images, a `file`; may be given several times")
	cmd.Flags().StringVar(&f.file, "file", "", "a regular `file` that stands for a card, as emulators take it")
	cmd.Flags().StringVar(&f.state, "state", stateFolder(), "`folder` of audit.jsonl and of what is kept of interrupted cards")
	cmd.Flags().StringVar(&f.operator, "operator", cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER")), "`name` for the audit line")
	cmd.Flags().BoolVar(&f.unmount, "unmount", false, "unmount the card's file systems first")
	jsonFlag(cmd, &f.asJSON)
}

// stateFolder is where a user's programs keep what they remember.
func stateFolder() string {
	base := os.Getenv("XDG_STATE_HOME")
	if home, err := os.UserHomeDir(); base == "" && err == nil {
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "grattoir", "flash")
}

func flashWriteCommand() *cobra.Command {
	f := flashing{write: true}
	cmd := &cobra.Command{
		Use:   "write IMAGE.img.zst --key PUB",
		Short: "Erase a card, write a signed image to it, and read every byte back",
		Long: `Verify the image against its signed manifest, then erase the card whose serial is typed,
write the image, and read every byte of it back from the card. No card is chosen for you,
and only removable ones are taken. A card that was interrupted does not boot; the same
command goes on where it was. --burn-in first fills the whole card and reads it back: it
finds every fake capacity and worn places, and takes minutes to hours.

Each card adds a line to audit.jsonl in the state folder. terminalctl codes F explains the
codes.

Exit status: 0 the card is good, 3 good but slow (F19), 4 refused before anything was
written, 1 failed, 2 wrong usage.`,
		Example: `  sudo terminalctl flash write grattoir-rpi-1.4.0.img.zst --key lottery.pub
  sudo terminalctl flash write grattoir-rpi-1.4.0.img.zst --key lottery.pub --yes-erase 0x1a2b3c4d --burn-in
  terminalctl flash write grattoir-rpi-1.4.0.img.zst --key lottery.pub --file card.img`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.yes = cmd.Flags().Changed("yes-erase")
			return f.run(cmd, args[0])
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.serial, "yes-erase", "", "erase the card with this `serial` and do not ask; with --file, the file's name")
	cmd.Flags().Int64Var(&f.fileSize, "file-mib", 0, "size of a new file in `MiB`; 0 for the next power of two, which emulators want")
	cmd.Flags().BoolVar(&f.burnIn, "burn-in", false, "fill the whole card and read it back first")
	return cmd
}

func flashVerifyCommand() *cobra.Command {
	var f flashing
	cmd := &cobra.Command{
		Use:   "verify IMAGE.img.zst --key PUB --serial SERIAL",
		Short: "Read a card and hold every byte of a signed image against it",
		Long: `Verify the image against its signed manifest, then read the card and compare. Nothing is
written. It is for cards that have not booted since: a boot changes the boot state and the
data partition.`,
		Example: `  sudo terminalctl flash verify grattoir-rpi-1.4.0.img.zst --key lottery.pub --serial 0x1a2b3c4d
  terminalctl flash verify grattoir-rpi-1.4.0.img.zst --key lottery.pub --file card.img`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.yes = true; (f.serial == "") == (f.file == "") {
				return cli.Usagef("name the card by --serial (terminalctl flash list) or --file")
			}
			return f.run(cmd, args[0])
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&f.serial, "serial", "", "the card's `serial`")
	return cmd
}

// run is a card from the image to the audit line.
func (f *flashing) run(cmd *cobra.Command, path string) error {
	ring, err := readKeys(f.keys)
	if err != nil {
		return err
	}
	if err := f.audited(); err != nil {
		return err
	}
	meter := newMeter(cmd.ErrOrStderr())
	image, err := flash.Open(cmd.Context(), path, ring, meter.read)
	if err != nil {
		return refuseCard(err)
	}
	defer image.Close()
	fmt.Fprintf(cmd.ErrOrStderr(), "%s %s for %s, signed by %s\n", image.Name, image.Version, image.Board, strings.Join(image.SignedBy, ", "))
	medium, record, err := f.open(cmd, image)
	if err != nil {
		return refuseCard(err)
	}
	job := flash.Job{Image: image, Medium: medium, Card: flash.Card{Serial: record.Serial, Size: record.Size}, Journals: f.state, BurnIn: f.burnIn, Tell: meter.tell}
	act := flash.Verify
	if f.write {
		act = flash.Write
	}
	result, err := act(cmd.Context(), job)
	meter.end()
	err = errors.Join(err, medium.Close())
	record.Result(result, err)
	audit := record.Append(f.auditFile())
	if f.asJSON {
		return errors.Join(cli.JSON(cmd.OutOrStdout(), record), flashCode(record, errors.Join(err, audit)))
	}
	if err == nil {
		printFlashed(cmd.OutOrStdout(), record)
	}
	return flashCode(record, errors.Join(err, audit))
}

func (f *flashing) auditFile() string { return filepath.Join(f.state, "audit.jsonl") }

// audited makes sure that a line can be added before a card is touched.
func (f *flashing) audited() error {
	if err := os.MkdirAll(f.state, 0o755); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	file, err := os.OpenFile(f.auditFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("--state: no audit line can be written: %w", err)
	}
	return file.Close()
}

// open opens the card that a person named.
func (f *flashing) open(cmd *cobra.Command, image *flash.Image) (flash.Medium, flash.Record, error) {
	record := flash.Record{At: time.Now().UTC(), Program: program(), Operator: f.operator, Act: "verify", Image: image.Name + " " + image.Version,
		ID: image.ID(), SHA256: fmt.Sprintf("%x", image.SHA256), ImageSize: image.Size, BurnIn: f.burnIn}
	if f.write {
		record.Act = "write"
	}
	if f.file != "" {
		m, err := f.openFile(image)
		if err != nil {
			return nil, record, err
		}
		record.Drive, record.Serial, record.Size = f.file, filepath.Base(f.file), m.Size()
		return m, record, nil
	}
	serial := f.serial
	if !f.yes {
		var err error
		if serial, err = f.ask(cmd); err != nil {
			return nil, record, err
		}
	}
	wish := flash.Wish{Write: f.write, Unmount: f.unmount}
	drive, err := f.system.Choose(serial, wish)
	if err != nil {
		return nil, record, err
	}
	m, err := f.system.Open(drive, wish)
	record.Drive, record.Serial, record.Size = cmp.Or(drive.Model, drive.Name), drive.Serial, drive.Size
	return m, record, err
}

// openFile makes a new file, or takes one that holds something when its name was given.
func (f *flashing) openFile(image *flash.Image) (flash.Medium, error) {
	info, err := os.Stat(f.file)
	switch held := err == nil && info.Size() > 0; {
	case !f.write && err != nil:
		return nil, err
	case f.write && held && (!f.yes || f.serial != filepath.Base(f.file)):
		return nil, cli.Usagef("%s holds something: to erase it, add --yes-erase %s", f.file, filepath.Base(f.file))
	}
	size := f.fileSize << 20
	if size == 0 {
		for size = 1 << 20; size < image.Size; size *= 2 {
		}
	}
	return flash.OpenFile(f.file, size)
}

// ask shows the drives and has a serial typed. Nothing is offered to be confirmed by one key.
func (f *flashing) ask(cmd *cobra.Command) (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", cli.Usagef("nobody can be asked here: name the card with --yes-erase SERIAL (terminalctl flash list)")
	}
	list, err := f.system.Drives()
	if err != nil {
		return "", err
	}
	if err := printDrives(cmd.ErrOrStderr(), list); err != nil {
		return "", err
	}
	fmt.Fprint(cmd.ErrOrStderr(), "\nEverything on the card will be erased. Type its serial: ")
	typed, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 256)).ReadString('\n')
	if err != nil && typed == "" {
		return "", cli.Usagef("no serial was typed: nothing was written")
	}
	return strings.TrimSpace(typed), nil
}

// refuseCard gives what kept a card from being touched its exit code and says what to do.
func refuseCard(err error) error {
	var f *flash.Fault
	if !errors.As(err, &f) {
		return err
	}
	code := cli.Failed
	if f.Refused() {
		code = cli.Refused
	}
	return cli.Exit(code, fmt.Errorf("%w\n%s", err, f.Hint()))
}

// flashCode is the exit of a card that was touched.
func flashCode(r flash.Record, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return cli.Exit(cli.Failed, errors.New("stopped: the card does not boot; give the same command to go on where it was"))
	case err != nil:
		return refuseCard(err)
	case r.Code != "":
		return cli.Exit(cli.Person, fmt.Errorf("%s: %s", r.Code, r.Why))
	}
	return nil
}

func printFlashed(w io.Writer, r flash.Record) {
	fmt.Fprintf(w, "%s (%s, %s) holds %s\nsha256 %s of %d bytes, read back from it\n%s written now, %s found from before, %s of old content erased in holes, %s, %.1f MB/s\n",
		r.Drive, r.Serial, amount(r.Size), r.Image, r.SHA256, r.ImageSize, amount(r.Written), amount(r.Resumed), amount(r.Zeroed),
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), float64(r.Speed)/1e6)
}

// meter shows how far a card is: one line that changes on a terminal, and elsewhere a line
// for each tenth.
type meter struct {
	out      io.Writer
	live     bool
	phase    flash.Phase
	next     int64 // the next tenth that is told
	shown    time.Time
	file     int64 // bytes of the image that were read
	unfolded bool  // a line is not ended yet
}

func newMeter(out io.Writer) *meter {
	file, ok := out.(*os.File)
	return &meter{out: out, live: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// read counts the image while it is verified.
func (m *meter) read(n, of int64) {
	m.file += n
	m.tell(flash.Progress{Phase: "verifying the image", Done: m.file, Total: of})
}

// liveEvery is how often a line on a terminal changes.
const liveEvery = 200 * time.Millisecond

func (m *meter) tell(p flash.Progress) {
	if p.Phase != m.phase {
		m.end()
		m.phase, m.next, m.shown = p.Phase, 0, time.Time{}
	}
	switch {
	case p.Silent > 0:
		m.end()
		fmt.Fprintf(m.out, "%s: the drive has not answered for %v\n", p.Phase, p.Silent.Round(time.Second))
		return
	case m.live && (time.Since(m.shown) >= liveEvery || p.Done == p.Total):
		m.shown, m.unfolded = time.Now(), true
		fmt.Fprintf(m.out, "\r%s\x1b[K", m.line(p))
	case !m.live && p.Total > 0 && p.Done >= m.next:
		fmt.Fprintln(m.out, m.line(p))
		m.next = (p.Done*10/p.Total + 1) * p.Total / 10
	}
}

func (m *meter) line(p flash.Progress) string {
	line := fmt.Sprintf("%s: %s of %s", p.Phase, amount(p.Done), amount(p.Total))
	if p.Speed > 0 {
		line += fmt.Sprintf(", %.1f MB/s, %v left", p.Speed/1e6, p.Left.Round(time.Second))
	}
	return line
}

// end ends a line that changes.
func (m *meter) end() {
	if m.unfolded {
		fmt.Fprintln(m.out)
	}
	m.unfolded = false
}
