package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/notify"
	"grattoir/cmd/internal/pins"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/scanner"
	"grattoir/device/screen"
	"grattoir/device/sound"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// run is the daemon's life: open, recover, serve, stop in order.
func run(ctx context.Context, path string, c configs.Terminal) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return (&daemon{path: path, config: c, log: log, now: clock(), pins: pins.Machine(c), manager: notify.Find()}).run(ctx)
}

// run opens the parts, and closes them however it ends.
func (d *daemon) run(ctx context.Context) error {
	defer d.close()
	if err := d.open(ctx); err != nil {
		return err
	}
	if err := d.recover(ctx); err != nil {
		return err
	}
	return d.serve(ctx)
}

// daemon is the terminal's parts, in the order in which they are opened.
type daemon struct {
	path   string // of its configuration, "" for none
	config configs.Terminal
	log    *slog.Logger
	now    func() time.Time
	ready  time.Time // when it was

	manager *notify.Manager // who started it, nil for nobody

	pins    gpio.Finder
	board   *board // nil where no pin is configured
	devices devices
	trust   trust
	book    *ledger.Ledger
	audit   *audit
	blocks  *library
	link    *link // nil until it is made: no trusted time then
	rules   *limits
	team    *crew

	stationery printer.Stationery
	counter    *terminal.Terminal
	page       *screen.Screen
	ear        health.Ear // catches the self-test's mark

	closers []closer
}

// closer is what the end must close, by name for the log.
type closer struct {
	what string
	f    func() error
}

// close closes what open has opened, the last first.
func (d *daemon) close() {
	for len(d.closers) > 0 {
		last := d.closers[len(d.closers)-1]
		d.closers = d.closers[:len(d.closers)-1]
		logError(d.log, "closing "+last.what, last.f())
	}
}

func (d *daemon) atEnd(what string, f func() error) { d.closers = append(d.closers, closer{what, f}) }

// trusted is the newest time that central has signed, zero before any.
func (d *daemon) trusted() time.Time {
	if d.link == nil {
		return time.Time{}
	}
	return d.link.trusted()
}

// open opens every part. What the technician got wrong is found before anything is
// opened. Then the outputs become idle, for a killed program may have left the drawer's
// coil on; the ledger follows, for its lock keeps a second daemon from everything else.
func (d *daemon) open(ctx context.Context) (err error) {
	if err := pins.Of(d.config).Validate(); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	d.openBoard()
	if err := makeFolders(d.config); err != nil {
		return err
	}
	layouts := func() []ticket.Layout { return d.blocks.shelf.Layouts() }
	if d.devices, err = makeDevices(d.config, d.board.lines(), layouts, d.log); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if d.trust, err = loadTrust(d.config); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	for _, part := range []func(context.Context) error{d.openBook, d.openBlocks, d.openTeam, d.openLink, d.openCounter} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *daemon) openBook(ctx context.Context) (err error) {
	// Closed after the ledger, whose last signature is over their audits, too.
	d.atEnd("the operators' files", func() error { return d.team.close() })
	audits := func(ctx context.Context) []ledger.AuditHead { return d.team.audits(ctx) }
	if d.book, err = openBook(ctx, d.config, d.trust, d.now, d.trusted, audits, d.log); err != nil {
		return err
	}
	d.atEnd("the ledger", d.book.Close)
	d.audit = startAudit(ctx, d.book, d.log)
	d.atEnd("the audit", d.audit.stop)
	return nil
}

func (d *daemon) openBlocks(ctx context.Context) (err error) {
	if d.blocks, err = newLibrary(d.config, d.trust, d.log); err != nil {
		return err
	}
	d.atEnd("the manifests", d.blocks.close)
	d.blocks.now = d.trusted
	return d.blocks.rescan(ctx)
}

func (d *daemon) openLink(ctx context.Context) (err error) {
	faults := func() []string { return faultCodes(d.counter, d.team.late(ctx)) }
	if d.link, err = newLink(d.config, d.trust, d.book, d.blocks, d.team.records(), faults, outside{step: crashStep(), policies: d.readPolicies}, d.log); err != nil {
		return err
	}
	d.rules, err = newLimits(d.config, d.trust, d.trusted, d.log)
	return err
}

// readPolicies takes in the policies that have come over the link, which runs only once
// everything is open.
func (d *daemon) readPolicies() { logError(d.log, "reading the policies", d.rules.rescan()) }

func (d *daemon) openTeam(ctx context.Context) (err error) {
	d.team, err = openCrew(ctx, d.config, d.trusted, d.log)
	return err
}

// openCounter joins the parts to the counter, and its page to it.
func (d *daemon) openCounter(ctx context.Context) (err error) {
	c := d.config
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return err
	}
	d.stationery = printer.Stationery{Shop: printer.Shop{Name: c.Shop.Name, Address: c.Shop.Address}, Logo: d.devices.logo, Language: money.Language(c.Language), Zone: zone,
		Sign: slipSigner(c, d.trust.identity, d.log)}
	desk := terminal.Options{Name: c.Name, Shelf: d.blocks.shelf, Ledger: journal{d.book, d.team.shut}, Currency: c.Policy.Currency,
		Printer: desk{printer.Desk{Device: d.devices.paper, Stationery: d.stationery, Log: d.log}, tornIn(c.Data)}, Central: d.link.central(), Packs: d.link.packs(), Messages: d.link.messages(), Policy: d.rules.inForce, Limits: d.limit,
		AcceptScaled: c.AcceptScaled, ResultSlips: policy.ResultSlips(c.Printer.ResultSlip), ReleaseAtClose: c.ReleaseAtClose, Operator: c.Operator, Now: d.now, Trusted: d.trusted, Log: d.log, LedgerFault: ledgerFault, Looked: d.book.Looked,
		Clock: newClockWatch(d.now, uptime.Since, d.trusted, signedFloor(ctx, d.book)).fault, Step: crashStep()}
	d.team.join(&desk)
	d.counter = terminal.New(desk)
	d.board.follow(d.counter)
	d.page, err = screen.New(screen.Options{Terminal: d.counter, Name: c.Name, Shop: c.Shop.Name, Languages: languages(c.Language), Zone: zone, Currency: c.Policy.Currency,
		Render: d.render, Demonstration: c.AcceptScaled, StandAlone: c.StandAlone, DataDate: d.blocks.date, Trusted: d.trusted, Operators: d.team.choice(), Workshop: d.workshop(), Log: d.log})
	return err
}

// limit words what the clerk must know of what may be paid: that central stopped this
// terminal, or what is wrong with the limits.
func (d *daemon) limit() *terminal.Fault {
	if f := d.link.fault(); f != nil {
		return f
	}
	return d.rules.fault()
}

// render draws a receipt as its slip comes out.
func (d *daemon) render(w io.Writer, r validate.Receipt) error {
	return d.stationery.PNG(w, r, d.devices.profile)
}

// recover settles what the last run left, before the first scan is accepted.
func (d *daemon) recover(ctx context.Context) error {
	cut, err := d.counter.Recover(ctx)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if tornIn(d.config.Data).found() || cut > 0 {
		d.devices.paper.Torn() // what was cut off may still lie in the printer, without its cut
	}
	d.audit.wait(auditGrace)
	return nil
}

// serve runs everything until ctx ends, then stops in order: no more scans, no more
// acts, the slip in hand, the printer; the ledger is closed last, by run.
func (d *daemon) serve(ctx context.Context) error {
	servers, err := d.listen(ctx)
	if err != nil {
		return err
	}
	scans, stopScans := context.WithCancel(ctx)
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx for the slip in hand
	var scanning, working group
	failed := make(chan error, 1)
	scanning.failed, working.failed = failed, failed
	d.ready = time.Now()
	d.startWork(work, &working, servers)
	d.startScans(scans, &scanning)
	d.log.Info("ready", "terminal", d.config.Name, "page", servers[0].url, "socket", d.config.Socket, "blocks", len(d.blocks.list()))

	logError(d.log, "ready", d.manager.Ready())
	working.start("sign of life", func() error { d.manager.Feed(work, d.alive, d.log); return nil })

	select {
	case <-ctx.Done():
		d.log.Info("stopping")
	case err = <-failed:
		d.log.Error("stopping: a part has failed", "err", err)
	}
	logError(d.log, "stopping", d.manager.Stopping())
	stopScans()
	scanning.Wait()
	d.page.Close() // its open streams would outlive their listener
	for _, s := range servers {
		s.stop(d.log)
	}
	d.counter.Drain(work)
	stopWork()
	working.Wait()
	return err
}

// alive is what a sign of life says: the counter and the ledger answer. Devices, blocks and
// the network may be as they are, since a new start would mend none of them.
func (d *daemon) alive(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		d.counter.State()
		_, err := d.book.FeedCursor(ctx)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the counter or the ledger has not answered: %w", ctx.Err())
	}
}

// startWork starts what serves until the slip in hand is out.
func (d *daemon) startWork(ctx context.Context, g *group, servers []server) {
	d.counter.ScannerFault(health.Connecting())
	g.start("printer", func() error { return d.devices.paper.Run(ctx) })
	g.start("slips", func() error { d.counter.Run(ctx); return nil })
	for _, s := range servers {
		g.start(s.name, func() error { return s.Serve(s.listener) })
	}
}

// startScans starts what ends first: what asks for new work.
func (d *daemon) startScans(ctx context.Context, g *group) {
	g.start("link", func() error {
		awaitDevices(ctx, d.counter) // so that the first hello does not report devices that are just connecting
		return d.link.run(ctx)
	})
	g.start("operators", func() error { return d.team.run(ctx) })
	g.start("pins", func() error { d.board.run(ctx, d.counter, d.page); return nil })
	if c := d.config.Sound; len(c.Program) > 0 && c.Volume > 0 {
		speaker := &sound.Player{Play: sound.Program(c.Program[0], c.Program[1:]...), Volume: c.Volume, Log: d.log}
		g.start("sound", func() error { speaker.Run(ctx, d.counter); return nil })
	}
	g.start("sign-on", func() error { d.counter.Watch(ctx); return nil })
	g.start("scanner", func() error {
		return d.devices.glass.Run(ctx, func(s scanner.Scan) {
			if d.ear.Caught(s.Text) {
				return
			}
			d.counter.Check(ctx, terminal.Scan{Text: s.Text, AIM: aimLetter(s.AIM), Entered: validate.Scanned})
		}, func(s scanner.State) { d.counter.ScannerFault(scannerFault(s)) })
	})
}

// group is parts that run side by side; the first that fails ends the daemon.
type group struct {
	sync.WaitGroup
	failed chan<- error
}

func (g *group) start(name string, f func() error) {
	g.Go(func() {
		err := f()
		if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, context.Canceled) {
			return
		}
		select {
		case g.failed <- fmt.Errorf("%s: %w", name, err):
		default: // the daemon stops already
		}
	})
}

// server is one of the two doors: the page, and the socket.
type server struct {
	*http.Server
	name, url string
	listener  net.Listener
}

// stop gives an act in flight its answer; a client that only waits is cut off.
func (s server) stop(log *slog.Logger) {
	soon, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.Shutdown(soon); err != nil {
		logError(log, "stopping a listener", s.Close())
	}
}

// listen opens both doors.
func (d *daemon) listen(ctx context.Context) ([]server, error) {
	web, err := net.Listen("tcp", d.config.Screen.Listen)
	if err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("screen.listen: %w (another program, perhaps another terminald, has the address: stop it, or change it in the configuration)", err))
	}
	socket, err := control.Listen(d.config.Socket)
	if err != nil {
		return nil, errors.Join(err, web.Close())
	}
	url := "http://" + web.Addr().String() + "/"
	acts := control.Handler(control.Options{Terminal: d.counter, Language: money.Language(d.config.Language), Status: func() control.Status { return d.status(ctx, url) },
		Rescan: func() error { return errors.Join(d.blocks.rescan(ctx), d.rules.rescan(), d.link.reread(ctx)) }, Render: d.render,
		Bench: d.bench(), Printer: printerActs(d.devices.paper), Roster: d.team.roster(), Ready: d.readiness, Quiet: d.quiet, Log: d.log})
	return []server{
		{&http.Server{Handler: d.page.Handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}, "pages", url, web},
		{&http.Server{Handler: acts, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}, "socket", "", socket},
	}, nil
}

// bench are the devices as the self-test reaches them.
func (d *daemon) bench() health.Bench {
	return pins.Bench(d.board.lines(), d.ear.Join(health.PaperBench(d.devices.paper, d.devices.profile)))
}

// status is what the socket tells of the daemon.
func (d *daemon) status(ctx context.Context, page string) control.Status {
	head := d.book.Head()
	policy, known := d.rules.status()
	return control.Status{Terminal: d.config.Name, Shop: d.config.Shop.Name, Program: version(), Policy: policy, Limits: known, StandAlone: d.config.StandAlone,
		Head: validate.EntryNumber{Epoch: head.Epoch, Seq: head.Seq}.String(), HeadHash: head.Hash.String(),
		Page: page, Blocks: d.blocks.list(), Damaged: d.blocks.damaged(), Now: d.now(), Trusted: d.trusted(), Link: d.link.status(),
		Register: d.team.lateOnSocket(ctx, money.Language(d.config.Language))}
}

// languages of the page, the configured one first.
func languages(first string) []money.Language {
	if first == string(money.English) {
		return []money.Language{money.English, money.French}
	}
	return []money.Language{money.French, money.English}
}

func makeFolders(c configs.Terminal) error {
	for _, dir := range []string{c.Data, c.Manifests()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return cli.Exit(cli.Usage, fmt.Errorf("data: %w (it must be this user's to write)", err))
		}
	}
	return nil
}

func logError(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Error(what, "err", err)
	}
}

// version is what the build stamped.
func version() string { return "grattoir " + buildVersion }

// buildVersion is set by the linker (-X main.buildVersion=...).
var buildVersion = "dev"
