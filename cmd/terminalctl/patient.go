package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/health"
	"grattoir/device/scanner"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

// patient is a terminal that is looked at: what the command line says of it, and then
// what was learned on the way.
type patient struct {
	configPath, socket string

	config   configs.Terminal
	broken   error // why the configuration cannot be used
	machine  health.Machine
	daemon   string
	silence  error          // what the socket said, where the daemon is not up
	status   control.Status // of a daemon that is up
	identity uplink.Identity
	unnamed  error // why there is no identity
	floor    time.Time
}

func (p *patient) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.configPath, "config", defaultConfig, "terminald's configuration `file`")
	cmd.Flags().StringVar(&p.socket, "socket", os.Getenv("GRATTOIR_SOCKET"), "the daemon's `socket`, where it is not the configuration's (also GRATTOIR_SOCKET)")
}

// meet reads the configuration and finds out whether the daemon is up. Without a
// configuration the usual socket is tried, and less can be seen.
func (p *patient) meet(ctx context.Context) {
	if whole, err := filepath.Abs(p.configPath); err == nil {
		p.configPath = whole // the paths in it are taken from its folder
	}
	p.config, p.broken = configs.LoadTerminal(p.configPath)
	p.machine = health.Machine{Root: os.DirFS("/"), Space: space, Up: uptime.Since(), Synced: synced}
	if p.socket == "" {
		if p.socket = p.config.Socket; p.socket == "" {
			p.socket = defaultSocket
		}
	}
	p.daemon, p.silence = p.call(ctx)
}

// answerIn is how long the daemon may take to answer.
const answerIn = 5 * time.Second

// call asks the daemon how it is. One that cannot be asked, because this user may not, or
// because it is starting or hangs, must be taken for one that has the devices.
func (p *patient) call(ctx context.Context) (state string, err error) {
	conn, err := net.DialTimeout("unix", p.socket, answerIn)
	switch {
	case err == nil:
		_ = conn.Close() // only to learn that somebody listens
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		if p.locked() {
			return health.DaemonSilent, err
		}
		return health.DaemonDown, err
	default:
		return health.DaemonSilent, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	if p.status, err = newClient(p.socket).Status(ctx); err != nil {
		return health.DaemonSilent, err
	}
	return health.DaemonUp, nil
}

// locked tells whether a program has the ledger open, by its lock. Nobody listens at the
// socket when it is asked, so a lock that may not be looked at proves nothing.
func (p *patient) locked() bool {
	if p.broken != nil {
		return false
	}
	f, err := os.OpenFile(p.config.Ledger()+".lock", os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not make it wait
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// examine makes every check that is not left out.
func (p *patient) examine(ctx context.Context, skip []string) health.Report {
	p.meet(ctx)
	r := health.Report{Terminal: p.config.Name, Program: program(), At: time.Now(), Daemon: p.daemon}
	if p.daemon == health.DaemonUp {
		r.Terminal = p.status.Terminal
	}
	if p.broken == nil && !p.config.StandAlone {
		p.identity, p.unnamed = uplink.LoadIdentity(p.config.Identity())
		p.floor = p.identity.Issued()
	}
	for _, m := range health.Examinations() {
		if !skips(skip, m) {
			r.Add(p.check(ctx, m.Code))
		}
	}
	return r
}

// check makes one check.
func (p *patient) check(ctx context.Context, code string) health.Check {
	c := p.config
	switch code {
	case health.CheckConfig:
		return health.Config(p.configPath, p.broken)
	case health.CheckDaemon:
		return health.Daemon(p.daemon, p.socket, p.silence)
	case health.CheckMemory:
		return p.machine.Memory()
	case health.CheckHeat:
		return p.machine.Heat()
	case health.CheckPower:
		return p.machine.Power()
	case health.CheckUSB:
		return p.machine.USB()
	case health.CheckTimeSync:
		return p.machine.TimeSync(p.broken != nil || c.StandAlone)
	case health.CheckClock:
		return health.ClockState(time.Now(), p.floor, fault(p.status.Clock))
	}
	if p.broken != nil {
		return health.About(code).Skip("the configuration says where to look, and it cannot be used")
	}
	switch code {
	case health.CheckFolder:
		return p.machine.Folder(c.Data)
	case health.CheckSpace:
		return p.machine.FreeSpace(c.Data, c.ReserveMB<<20)
	case health.CheckFileSystem:
		return p.machine.FileSystem(c.Data)
	case health.CheckLedger:
		return health.LedgerState(p.ledger(ctx))
	case health.CheckBlocks:
		return p.blocks(ctx)
	case health.CheckPolicies:
		return p.policies()
	case health.CheckKeys:
		return health.Keys(p.keys())
	case health.CheckCertificate:
		return health.Certificate(c.StandAlone, p.identity.Expires(), p.now(), p.unnamed)
	case health.CheckScanner:
		return p.scanner(ctx)
	case health.CheckPrinter:
		return p.printer(ctx)
	case health.CheckPorts:
		return p.others()
	case health.CheckGPIO:
		return p.pins()
	case health.CheckCentral:
		return health.Central(p.central(ctx))
	}
	return health.About(code).Skip("this program does not know how")
}

// now is the newest time that can be believed: the daemon's trusted one, else the clock's.
func (p *patient) now() time.Time {
	if !p.status.Trusted.IsZero() {
		return p.status.Trusted
	}
	return time.Now()
}

// fault is a fault as the daemon told it. That speaks the clerk's language, the doctor
// speaks the technician's.
func fault(f *control.Fault) *terminal.Fault {
	if f == nil {
		return nil
	}
	out := &terminal.Fault{Code: f.Code, ClerkFR: f.Clerk, ClerkEN: f.Clerk, Technician: f.Technician}
	if rows, err := choose(codes(), []string{f.Code}); err == nil && rows[0].ClerkEN != "" {
		out.ClerkEN = rows[0].ClerkEN
	}
	return out
}

// walkFor is how long the ledger's chain is walked at most.
const walkFor = 10 * time.Second

// ledger asks the daemon, or opens the file to look at it.
func (p *patient) ledger(ctx context.Context) health.LedgerFacts {
	f := health.LedgerFacts{Path: p.config.Ledger()}
	if p.daemon == health.DaemonUp {
		f.Fault, f.Head = fault(p.status.Ledger), p.status.Head
		return f
	}
	book, err := ledger.Inspect(ctx, f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		_, lock := os.Stat(f.Path + ".lock")
		if f.Absent = lock != nil; !f.Absent {
			f.Class, f.Err = health.LedgerGone, err
		}
		return f
	}
	if err != nil {
		f.Class, f.Err = health.Class(ledger.TroubleOf(err)), err
		return f
	}
	defer book.Close()
	if head := book.Head(); head.Seq > 0 {
		f.Head = validate.EntryNumber{Epoch: head.Epoch, Seq: head.Seq}.String()
	}
	walk, cancel := context.WithTimeout(ctx, walkFor)
	defer cancel()
	found, err := book.Verify(walk)
	switch {
	case err != nil && walk.Err() != nil:
		f.Partly = true
	case err != nil:
		f.Class, f.Err = health.Class(ledger.TroubleOf(err)), err
	default:
		f.Entries, f.Claims = found.Entries, found.Claims
	}
	return f
}

// ring are the keys that may sign manifests and policies here.
func (p *patient) ring() (manifest.Keys, error) {
	if !p.config.StandAlone {
		if p.unnamed != nil {
			return manifest.Keys{}, p.unnamed
		}
		return manifest.NewKeys(1, p.identity.SealKeys...)
	}
	var public []string
	for _, path := range p.config.Keys {
		text, err := cli.ReadPublicKey(path)
		if err != nil {
			return manifest.Keys{}, err
		}
		public = append(public, text)
	}
	return manifest.NewKeys(p.config.Signatures, public...)
}

// noKeys is a check of signed files that no key is there to verify.
func noKeys(c health.Check, err error) health.Check {
	if errors.Is(err, fs.ErrPermission) {
		return c.Hidden("the keys that verify them")
	}
	return c.Skip("no key is there to verify them with: see keys, or certificate")
}

// maxLooked bounds the files of one folder that are opened.
const maxLooked = 1000

// blocks asks the daemon, or opens every manifest.
func (p *patient) blocks(ctx context.Context) health.Check {
	dir := p.config.Manifests()
	list := []health.BlockFacts{}
	if p.daemon == health.DaemonUp {
		for _, b := range p.status.Blocks {
			list = append(list, health.BlockFacts{File: b.File, Game: b.Game, Tickets: b.Tickets, Note: blockNote(b)})
		}
		for _, name := range p.status.Damaged {
			list = append(list, health.BlockFacts{File: name, Note: "it cannot be used"})
		}
		return health.Blocks(dir, list, nil)
	}
	ring, err := p.ring()
	if err != nil {
		return noKeys(health.About(health.CheckBlocks), err)
	}
	names, err := p.files(dir, ".manifest")
	for _, name := range names {
		b, err := manifest.Open(ctx, filepath.Join(dir, name), ring)
		f := health.BlockFacts{File: name, Err: err}
		if b != nil {
			f.Game, f.Tickets = b.Header.Game, int64(b.Header.Tickets)
			if err == nil {
				f.Err = b.Damage()
			}
			_ = b.Close() // it was only read
		}
		list = append(list, f)
	}
	return health.Blocks(dir, list, err)
}

func blockNote(b control.Block) string {
	switch {
	case b.Damaged:
		return "damaged"
	case b.Locked:
		return "its pepper is not here"
	case b.Overlaps != "":
		return "claims the packs of " + b.Overlaps
	}
	return ""
}

// files lists a folder's files with a suffix. A folder that does not exist has none.
func (p *patient) files(dir, suffix string) (names []string, err error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range list {
		if strings.HasSuffix(entry.Name(), suffix) && len(names) < maxLooked {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// policies asks the daemon, or opens every signed one.
func (p *patient) policies() health.Check {
	if p.daemon == health.DaemonUp {
		l := p.status.Limits
		return health.Policies(health.PolicyFacts{Version: p.status.Policy, Source: l.Source, Signed: len(l.Signed), Fault: fault(l.Fault)}, nil)
	}
	ring, err := p.ring()
	if err != nil {
		return noKeys(health.About(health.CheckPolicies), err)
	}
	dir := p.config.Policies()
	names, err := p.files(dir, ".policy")
	f := health.PolicyFacts{Unusable: map[string]error{}}
	for _, name := range names {
		if err := readPolicy(filepath.Join(dir, name), ring); err != nil {
			f.Unusable[name] = err
			continue
		}
		f.Signed++
	}
	return health.Policies(f, err)
}

func readPolicy(path string, ring manifest.Keys) error {
	signed, err := cli.ReadBounded(path, policy.MaxText)
	if err != nil {
		return err
	}
	text, _, err := ring.Open(signed)
	if err != nil {
		return err
	}
	_, err = policy.Parse(text)
	return err
}

// keys are the files of keys and of people: public ones must be what they should be,
// secret ones open to nobody else.
func (p *patient) keys() (list []health.KeyFile) {
	c := p.config
	for _, path := range c.Keys {
		_, err := cli.ReadPublicKey(path)
		list = append(list, health.KeyFile{Path: path, Err: err})
	}
	if c.ClaimKey != "" {
		text, err := cli.ReadBounded(c.ClaimKey, maxKeyFile)
		if err == nil {
			_, err = ledger.ParseClaimKey(string(text))
		}
		list = append(list, health.KeyFile{Path: c.ClaimKey, Err: err})
	}
	if c.Register.Key != "" {
		_, err := os.Stat(c.Register.Key)
		list = append(list, health.KeyFile{Path: c.Register.Key, Err: err})
	}
	secret := []string{c.Ledger(), c.SlipKey(), c.People(), c.RegisterFile()}
	for _, pattern := range []string{"*.key", "*.pem", filepath.Join("identity", "*"), filepath.Join("manifests", "*.pepper")} {
		found, _ := filepath.Glob(filepath.Join(c.Data, pattern)) // our own patterns are good
		secret = append(secret, found...)
	}
	slices.Sort(secret)
	for _, path := range slices.Compact(secret) {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // made when it is needed
		case err != nil:
			list = append(list, health.KeyFile{Path: path, Secret: true, Err: err})
		case info.Mode().IsRegular():
			list = append(list, health.KeyFile{Path: path, Secret: true, Mode: info.Mode()})
		}
	}
	return list
}

// others looks for programs that have the ports or take them.
func (p *patient) others() health.Check {
	ports := []string{p.config.Scanner.Path, p.config.Printer.Path}
	rivals, unseen := p.machine.Rivals([]string{"terminald"}, ports...)
	for _, port := range ports {
		intruders, err := scanner.Intruders(p.machine.Root, port)
		if errors.Is(err, fs.ErrPermission) {
			unseen++
		}
		for _, i := range intruders {
			rivals = append(rivals, health.Rival{Name: i.Name + " (" + i.Found + ")", Port: port, Hint: i.Hint})
		}
	}
	return health.Others(rivals, unseen)
}

// central looks up its name and connects to its port; the daemon knows more.
func (p *patient) central(ctx context.Context) health.CentralFacts {
	f := health.CentralFacts{Alone: p.config.StandAlone}
	if f.Alone {
		return f
	}
	if l := p.status.Link; l != nil {
		f.Contact = l.Contact
		for _, x := range l.Faults {
			if x.Code == uplink.CodeForbidden || uplink.Stops(x.Code) {
				f.Refused = fault(&x)
			}
		}
	}
	u, err := url.Parse(cmp.Or(p.config.Central.Proxy, p.config.Central.URL)) // a proxy looks central's name up by itself
	if err != nil {
		f.Lookup = errors.New("its address cannot be read")
		return f
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	f.Host = net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	if _, f.Lookup = net.DefaultResolver.LookupHost(ctx, u.Hostname()); f.Lookup != nil {
		return f
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", f.Host)
	if err != nil {
		f.Dial = err
		return f
	}
	_ = conn.Close() // nothing was sent
	return f
}

// space asks the file system below a path.
func space(path string) (health.Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return health.Space{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	out := health.Space{Free: int64(s.Bavail) * int64(s.Bsize), Total: int64(s.Blocks) * int64(s.Bsize), Files: -1}
	if s.Files > 0 {
		out.Files = int64(s.Ffree)
	}
	return out, nil
}

// synced asks the kernel whether another keeps its clock; it changes nothing.
func synced() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return false, err
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}

// buildVersion is set by the linker (-X main.buildVersion=...).
var buildVersion = "dev"

func program() string { return "grattoir " + buildVersion }

// goVersion is the compiler's, for bundles.
func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}
