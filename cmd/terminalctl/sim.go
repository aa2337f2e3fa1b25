package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"grattoir/cmd/internal/cli"
	"grattoir/device/sim"
)

// simOptions are the flags of sim.
type simOptions struct {
	dir     string
	columns int
	script  string
	end     bool
	png     bool
	tickets string
	pace    time.Duration
}

func simCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim --dir DIR",
		Short: "Simulate a scanner and a printer on pseudo terminals, paths printed",
		Long: `Make a scanner and a receipt printer without hardware. DIR/scanner and DIR/printer
are links to them, to be named in terminald's configuration. What is typed or pasted here
is scanned; slips come out as text. A line that begins with : is an act:

  :paper out | :paper ok | :paper low     the roll
  :paper out after 12 lines               ... in the middle of a slip
  :cover open | :cover closed             the cover
  :printer unplug | :printer replug       its cable
  :split 3 20ms | :truncate 10            what goes wrong with the next scan
  :acts                                   every act of the language of scripts
  :run FILE | :stop                       play a script, or end it
  :png [FILE]                             the last slip as a picture
  :show                                   what hangs out of the printer, and its state
  :help | :quit

On a terminal these keys do the same at any time:

  Ctrl-O  paper out, or in again          Ctrl-V  cover open, or closed
  Ctrl-T  printer's cable out, or in      Ctrl-G  scanner's cable out, or in
  Ctrl-Y  the last slip as a picture      Ctrl-D  quit

Where standard input is no terminal its lines are obeyed, and the devices stay after
its end until the program is interrupted. The language of scripts is described in
device/sim/SCRIPT.md; the statement "tickets N" takes codes from --tickets.`,
		Example: `  terminalctl sim --dir /tmp/counter
  terminalctl sim --dir /tmp/counter --script day.sim --tickets sample/tickets.csv --end`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.dir == "":
				return cli.Usagef("--dir is missing: name a folder for the two links")
			case o.columns != 32 && o.columns != 42 && o.columns != 48:
				return cli.Usagef("--columns %d: want 32, 42 or 48", o.columns)
			case o.end && o.script == "":
				return cli.Usagef("--end needs --script: it ends with the script")
			case o.pace < 0:
				return cli.Usagef("--pace %v: want no less than 0s", o.pace)
			}
			return simulate(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "`folder` for the links scanner and printer")
	f.IntVar(&o.columns, "columns", 42, "the printer's columns: 32, 42 or 48")
	f.StringVar(&o.script, "script", "", "`file` with a script to play first")
	f.BoolVar(&o.end, "end", false, "end when the script has ended, with its status")
	f.BoolVar(&o.png, "png", false, "draw each slip into DIR/slip-N.png")
	f.StringVar(&o.tickets, "tickets", "", "`file` with a code a line, as tickets.csv, for a script's tickets")
	f.DurationVar(&o.pace, "pace", 2*time.Second, "time from one of a script's tickets to the next")
	return cmd
}

func simulate(ctx context.Context, in io.Reader, out io.Writer, o simOptions) (err error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(o.dir, ".sim.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another sim uses %s: end it first, or name another folder", o.dir)
	}
	codes, err := readCodes(o.tickets)
	if err != nil {
		return err
	}
	glass, err := sim.NewScanner(filepath.Join(o.dir, "scanner"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, glass.Close()) }()
	paper, err := sim.NewPrinter(filepath.Join(o.dir, "printer"), sim.PrinterOptions{Columns: o.columns})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, paper.Close()) }()
	d := &simDesk{opt: o, devices: &sim.Devices{Scanner: glass, Printer: paper}, codes: codes, out: out}
	return d.run(ctx, in)
}

// maxCodes bounds the file of --tickets: some thousand tickets are a long day.
const maxCodes = 8 << 20

// readCodes gives the first field of each line but a header.
func readCodes(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var codes []string
	lines := bufio.NewScanner(io.LimitReader(f, maxCodes))
	for lines.Scan() {
		code, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ",")
		if code != "" && code != "code" {
			codes = append(codes, code)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("tickets %s: %w", path, err)
	}
	if len(codes) == 0 {
		return nil, fmt.Errorf("tickets %s: no code in it", path)
	}
	return codes, nil
}

// simDesk is the person in front of the simulated devices.
type simDesk struct {
	opt     simOptions
	devices *sim.Devices
	codes   []string
	acts    uint64 // typed so far: the seed of the next

	mu    sync.Mutex // guards what follows, and whole messages on out
	out   io.Writer
	told  func()     // after a change that the prompt shows, nil for none
	slips []sim.Slip // that came out
	stop  func()     // ends the script that is played, nil for none

	known int // of the printer's complaints, printed already; collect's own
}

// say prints a message whole. A terminal that is gone ends the program by its input.
func (d *simDesk) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format, args...)
}

// run starts everything and waits for its end.
func (d *simDesk) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	console, err := d.console(in)
	if err != nil {
		return err
	}
	defer console.close()
	d.say("scanner %s\nprinter %s\n", d.devices.Scanner.Path(), d.devices.Printer.Path())
	working.Go(func() { d.collect(ctx) })
	working.Go(func() { d.watchDrawer(ctx) })
	played := make(chan error, 1)
	if d.opt.script != "" {
		if err := d.play(ctx, &working, d.opt.script, played); err != nil {
			return err
		}
	}
	lines := make(chan string)
	go func() { // ends with the program: a read from a terminal cannot be cut short
		defer close(lines)
		for {
			line, err := console.read()
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-played:
			if d.opt.end {
				return err
			}
			d.report(err, "the script has ended")
		case line, more := <-lines:
			if !more && console.terminal || line == ":quit" {
				return nil
			}
			if !more { // a script may be piped in: the devices stay
				lines = nil
				continue
			}
			d.obey(ctx, &working, strings.TrimSpace(line), played)
		}
	}
}

// report says how something went, errors on standard error where that is another place.
func (d *simDesk) report(err error, done string) {
	if err != nil {
		done = "terminalctl: " + err.Error()
	}
	if d.told != nil {
		d.say("%s\n", done)
		d.told()
		return
	}
	fmt.Fprintln(os.Stderr, done)
}

// watchDrawer tells when the drawer is opened.
func (d *simDesk) watchDrawer(ctx context.Context) {
	for {
		p, err := d.devices.Printer.NextPulse(ctx)
		if err != nil {
			return
		}
		d.say("the drawer opens: pin %d, %v\n", 2+3*p.Pin, p.On)
	}
}

// collect prints the slips as they come out. A picture is whole before its slip is shown.
func (d *simDesk) collect(ctx context.Context) {
	for {
		slip, err := d.devices.Printer.Next(ctx)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.slips = append(d.slips, slip)
		n := len(d.slips)
		d.mu.Unlock()
		if d.opt.png {
			path, err := d.draw(n, "")
			d.report(err, "drawn into "+path)
		}
		complaints := d.devices.Printer.Errors()
		for _, line := range folded(complaints[d.known:]) {
			d.say("the printer does not understand: %s\n", line)
		}
		d.known = len(complaints)
		d.say("\n%s\n", slip.Text())
	}
}

// folded are errors in words, one line for a run of equal ones: a driver that fills up a
// picture that was cut off sends a thousand bytes that are nothing.
func folded(list []error) (lines []string) {
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n].Error() == list[i].Error() {
			n++
		}
		line := list[i].Error()
		if n > 1 {
			line += fmt.Sprintf(" (%d times)", n)
		}
		lines = append(lines, line)
		i += n
	}
	return lines
}

// draw writes slip n, counted from 1, into path, or DIR/slip-N.png.
func (d *simDesk) draw(n int, path string) (string, error) {
	d.mu.Lock()
	if n == 0 || n > len(d.slips) {
		d.mu.Unlock()
		return "", errors.New("no slip has come out yet")
	}
	slip := d.slips[n-1]
	d.mu.Unlock()
	if path == "" {
		path = filepath.Join(d.opt.dir, fmt.Sprintf("slip-%d.png", n))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	return path, errors.Join(slip.PNG(f), f.Close())
}

func (d *simDesk) last() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.slips)
}

// obey does what a line asks for.
func (d *simDesk) obey(ctx context.Context, working *sync.WaitGroup, line string, played chan error) {
	if !strings.HasPrefix(line, ":") {
		if line != "" {
			d.report(d.devices.Scanner.Scan(line), "scanned")
		}
		return
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line[1:]), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case word == "help" && rest == "":
		d.say("A code is scanned. :paper out, :cover open, :printer unplug and more are acts, :acts lists them.\n" +
			":run FILE and :stop play a script, :png [FILE] draws the last slip, :show says how the printer is, :quit ends.\n")
	case word == "acts" && rest == "":
		for _, f := range sim.Forms() {
			d.say("  :%-34s %s\n", f.Pattern, f.Means)
		}
	case word == "show" && rest == "":
		d.show()
	case word == "png":
		path, err := d.draw(d.last(), rest)
		d.report(err, "drawn into "+path)
	case word == "run" && rest != "":
		d.report(d.play(ctx, working, rest, played), "playing "+rest)
	case word == "stop" && rest == "":
		d.report(d.halt(), "the script is stopped")
	default:
		d.act(ctx, working, line[1:])
	}
}

// act does what was typed, as a script of one line. What comes later, or waits, is done
// beside the typing; the rest before the next line.
func (d *simDesk) act(ctx context.Context, working *sync.WaitGroup, line string) {
	script, err := sim.ParseScript("typed", strings.NewReader(line))
	if err != nil {
		d.report(fmt.Errorf("%w (:help and :acts list what there is)", plain(err)), "")
		return
	}
	d.acts++
	script.Seed = d.acts
	play := func() {
		if err := script.Play(ctx, sim.Stage{Hands: d.devices}); !errors.Is(err, context.Canceled) {
			d.report(plain(err), line+": done")
		}
	}
	if script.Waits() {
		working.Go(play)
		return
	}
	play()
}

// plain is the cause alone: the line of what was typed is no news.
func plain(err error) error {
	if at, ok := errors.AsType[*sim.ScriptError](err); ok {
		return at.Err
	}
	return err
}

// show says how the devices are.
func (d *simDesk) show() {
	p := d.devices.Printer
	c := p.Counts()
	d.say("printer: %s; %d bytes received, %d waiting, %d lost; %d slips\nscanner: %s\n%s", d.states("in order", p.Plugged()), c.Received, c.Waiting, c.Dropped,
		d.last(), plugged(d.devices.Scanner.Plugged()), p.Uncut().Text())
}

func plugged(in bool) string {
	if in {
		return "plugged in"
	}
	return "unplugged"
}

// states is what is wrong with the printer in words, or the word given.
func (d *simDesk) states(well string, in bool) string {
	s := d.devices.Printer.State()
	var list []string
	for _, x := range []struct {
		on   bool
		text string
	}{{!in, "unplugged"}, {s.Off, "off"}, {s.PaperEnd, "paper out"}, {s.PaperNearEnd, "paper low"}, {s.CoverOpen, "cover open"}, {s.CutterJam || s.CutterError, "cutter jammed"},
		{s.HeadHot, "head hot"}, {s.Broken, "broken"}, {s.Stalled, "stalled"}, {s.OneWay, "one-way"}} {
		if x.on {
			list = append(list, x.text)
		}
	}
	if len(list) == 0 {
		return well
	}
	return strings.Join(list, ", ")
}

// play begins a script. Its end comes over played.
func (d *simDesk) play(ctx context.Context, working *sync.WaitGroup, path string, played chan error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	script, err := sim.ParseScript(path, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop != nil {
		return errors.New("a script is being played: end it with :stop first")
	}
	ctx, cancel := context.WithCancel(ctx)
	d.stop = cancel
	stage := sim.Stage{Hands: d.devices, Told: func(e sim.Event) { d.say("%v\n", e) }}
	if d.codes != nil {
		stage.Ticket = d.ticket
	}
	working.Go(func() {
		err := script.Play(ctx, stage)
		if errors.Is(err, context.Canceled) {
			err = nil // stopped by hand
		}
		d.mu.Lock()
		d.stop = nil
		d.mu.Unlock()
		cancel()
		played <- err
	})
	return nil
}

// halt ends the script that is being played.
func (d *simDesk) halt() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stop == nil {
		return errors.New("no script is being played")
	}
	d.stop()
	return nil
}

// ticket scans the script's nth ticket and takes its time. A cable that a fault has pulled
// out leaves the ticket unscanned, as it would a clerk.
func (d *simDesk) ticket(ctx context.Context, n int) error {
	if n > len(d.codes) {
		return fmt.Errorf("--tickets has %d codes only", len(d.codes))
	}
	if err := d.devices.Scanner.Scan(d.codes[n-1]); err != nil {
		d.say("ticket %d is not scanned: %v\n", n, err)
	}
	t := time.NewTimer(d.opt.pace)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// console reads lines from a terminal, with editing and keys, or plainly.
type console struct {
	terminal bool
	read     func() (string, error)
	close    func()
}

// console takes over a terminal, and leaves any other input as it is.
func (d *simDesk) console(in io.Reader) (*console, error) {
	f, ok := in.(*os.File)
	if out, isFile := d.out.(*os.File); !ok || !isFile || !term.IsTerminal(int(f.Fd())) || !term.IsTerminal(int(out.Fd())) {
		lines := bufio.NewScanner(in)
		return &console{read: func() (string, error) {
			if lines.Scan() {
				return lines.Text(), nil
			}
			return "", errors.Join(lines.Err(), io.EOF)
		}, close: func() {}}, nil
	}
	was, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, d.out}, "scan> ")
	if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		_ = screen.SetSize(w, h)
	}
	d.out = screen
	d.told = func() {
		prompt := "scan> "
		if s := d.states("", d.devices.Printer.Plugged()); s != "" {
			prompt = "[printer " + s + "] " + prompt
		}
		if !d.devices.Scanner.Plugged() {
			prompt = "[scanner unplugged] " + prompt
		}
		screen.SetPrompt(prompt)
		_, _ = screen.Write(nil) // shows it
	}
	screen.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		d.press(key)
		return line, pos, false
	}
	return &console{terminal: true, read: screen.ReadLine, close: func() { _ = term.Restore(int(f.Fd()), was) }}, nil
}

// The keys that act at once.
const (
	keyPaper   = 'O' & 0x1F
	keyCover   = 'V' & 0x1F
	keyPrinter = 'T' & 0x1F
	keyScanner = 'G' & 0x1F
	keyPicture = 'Y' & 0x1F
)

// press does what a key is for; other keys are none of its business.
func (d *simDesk) press(key rune) {
	p, g := d.devices.Printer, d.devices.Scanner
	switch key {
	case keyPaper:
		if p.State().PaperEnd {
			p.LoadPaper(0)
			d.report(nil, "paper is in")
			return
		}
		p.Set(func(s *sim.State) { s.PaperEnd = true })
		d.report(nil, "paper is out")
	case keyCover:
		p.Set(func(s *sim.State) { s.CoverOpen = !s.CoverOpen })
		d.report(nil, map[bool]string{true: "cover is open", false: "cover is closed"}[p.State().CoverOpen])
	case keyPrinter:
		toggle := p.Replug
		if p.Plugged() {
			toggle = p.Unplug
		}
		d.report(toggle(), "printer's cable is moved")
	case keyScanner:
		toggle := g.Replug
		if g.Plugged() {
			toggle = g.Unplug
		}
		d.report(toggle(), "scanner's cable is moved")
	case keyPicture:
		path, err := d.draw(d.last(), "")
		d.report(err, "drawn into "+path)
	}
}
