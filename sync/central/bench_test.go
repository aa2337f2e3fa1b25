package central

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"grattoir/sync/central/pgtest"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

const (
	ingestTerminals = 8
	ingestBatch     = 50 // claims of an upload
)

// country are the settings of RUNNING.md for a server with some gigabytes to itself.
var country = []string{"shared_buffers=4GB", "max_wal_size=16GB", "checkpoint_timeout=30min", "wal_compression=lz4", "wal_buffers=64MB"}

// present is how many claims of other terminals the tables hold before a measurement begins.
var present = flag.Int("present", 0, "claims that are in central's tables before the benchmark of uploads")

// BenchmarkIngest is uploads of 50 claims from 8 terminals at once, with everything
// proven and durable, on either store; beside each, in the same run, the bare insert of as
// many rows of the same bytes by the fastest way the database has. Run it with -benchtime 200x
// or more: an iteration is one upload.
func BenchmarkIngest(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { ingest(b, "", nil) })
	b.Run("sqlite-bare", func(b *testing.B) { bareSQLite(b, filepath.Join(b.TempDir(), "bare.db")) })
	server, err := pgtest.Start(country...) // one that syncs the disk
	if errors.Is(err, pgtest.ErrMissing) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	}()
	database := func(b *testing.B) string {
		url, err := server.Schema(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return url
	}
	b.Run("postgres", func(b *testing.B) { ingest(b, database(b), server) })
	b.Run("postgres-copy", func(b *testing.B) { barePostgres(b, database(b)) })
	b.Run("postgres-pgbench", func(b *testing.B) { pgbench(b, database(b)) })
}

// ingest makes b.N uploads, as many from each terminal, of tickets that are all credited. It
// reports the processor's time as well, all of it and the server's share: it says what a
// machine with nothing else to do takes in, where this one has.
func ingest(b *testing.B, database string, server *pgtest.Server) {
	packs := (b.N*ingestBatch/ingestTerminals/60 + 2) * ingestTerminals
	w := newWorldOf(b, database, int64(packs*60), []manifest.Tier{{Count: 2, Amount: 20000}, {Count: int64(packs*60 - 2), Amount: 2000}})
	share := uint32(packs / ingestTerminals)
	uploads := make([][]wire.Upload, ingestTerminals)
	var devices []*device
	for i := range uint32(ingestTerminals) {
		d := w.enrolled(b, fmt.Sprintf("T-%d", i))
		devices = append(devices, d)
		first := 10 + i*share
		w.give(b, d.name, first, first+share-1)
		won := w.winners(first, first+share-1)
		for k := range (b.N + ingestTerminals - 1 - int(i)) / ingestTerminals {
			d.pay(b, won[k*ingestBatch:(k+1)*ingestBatch]...)
			n := int64(len(d.lines))
			uploads[i] = append(uploads[i], d.upload(b, n-ingestBatch+1, n))
		}
	}
	before := w.count(b, "SELECT count(*) FROM claims")
	preload(b, w, database != "", *present)
	own, servers := processorTime(b, server)
	b.ResetTimer()
	var group sync.WaitGroup
	for i, d := range devices {
		group.Go(func() {
			for _, u := range uploads[i] {
				if _, err := w.upload(context.Background(), caller{d.name, &d.key.PublicKey}, u); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
	ownAfter, serversAfter := processorTime(b, server)
	perClaim := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N*ingestBatch) }
	b.ReportMetric(perClaim(ownAfter-own+serversAfter-servers), "core-µs/claim")
	if server != nil {
		b.ReportMetric(perClaim(serversAfter-servers), "server-µs/claim")
	}
	if n := w.count(b, "SELECT count(*) FROM claims") - before - *present; n != b.N*ingestBatch {
		b.Fatalf("%d claims credited of %d", n, b.N*ingestBatch)
	}
}

// processorTime is what this process has used of the processor, and a database server.
func processorTime(b *testing.B, server *pgtest.Server) (own, servers time.Duration) {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	if server != nil {
		var err error
		if servers, err = server.ProcessorTime(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), servers
}

// preload fills the tables with claims of 30 000 other terminals in 40 other blocks.
func preload(b *testing.B, w *world, postgres bool, n int) {
	series, block, line, hash := `WITH RECURSIVE s(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM s WHERE i < %d)`, `unhex(printf('%032x', i % 40))`, fmt.Sprintf(`CAST(printf('%%.*c', %d, 'x') AS BLOB)`, bareLine), `zeroblob(32)`
	if postgres {
		series, block, line, hash = `WITH s(i) AS (SELECT generate_series(%d, %d))`, `decode(lpad(to_hex(i % 40), 32, '0'), 'hex')`, fmt.Sprintf(`convert_to(repeat('x', %d), 'UTF8')`, bareLine), `decode(repeat('0', 64), 'hex')`
	}
	const run = 250_000
	for from := 0; from < n; from += run {
		rows := fmt.Sprintf(series, from, min(from+run, n)-1)
		w.exec(b, `INSERT INTO entries(terminal, epoch, seq, kind, line, hash, received) `+rows+` SELECT 'P-' || (i % 30000), 1, 1 + i / 30000, 'claim', `+line+`, `+hash+`, '2026-11-30T12:00:00.000Z' FROM s`)
		w.exec(b, `INSERT INTO claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received) `+rows+
			` SELECT `+block+`, i / 2400, i / 40 % 60, 0, '0123456789abcdef0123456789abcdef', 'P-' || (i % 30000), 1, 1 + i / 30000, 8, 2000, 'EUR', 'marie', '2026-11-30T12:00:00.000Z', '2026-11-30T12:00:00.000Z' FROM s`)
	}
}

// pgbench inserts single rows, a commit each, over as many connections as there are
// terminals: what a server gets that takes each claim by itself and proves nothing.
func pgbench(b *testing.B, database string) {
	program, err := pgtest.Program("pgbench")
	if err != nil {
		b.Skip(err)
	}
	barePostgresTable(b, database)
	script := filepath.Join(b.TempDir(), "insert.sql")
	text := fmt.Sprintf("\\set n random(1, 9000000000000000)\nINSERT INTO bare VALUES ('T-' || :client_id, :n, convert_to(repeat('x', %d), 'UTF8'));\n", bareLine)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	each := max(1, b.N*ingestBatch/ingestTerminals/10) // a tenth of the claims is enough for a rate
	at, err := url.Parse(database)
	if err != nil {
		b.Fatal(err)
	}
	query := at.Query()
	schema := query.Get("search_path") // which libpq takes as an option alone
	query.Del("search_path")
	at.RawQuery = query.Encode()
	b.ResetTimer()
	run := exec.CommandContext(b.Context(), program, "--no-vacuum", "--file", script, "--protocol", "prepared", "--client", strconv.Itoa(ingestTerminals), "--jobs", "2",
		"--transactions", strconv.Itoa(each), at.String())
	run.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+schema)
	out, err := run.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	tps := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if tps == nil {
		b.Fatalf("%s", out)
	}
	rate, err := strconv.ParseFloat(string(tps[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(rate, "claims/s")
}

const bareLine = 600 // bytes of a claim's entry

func bareRows(n, from int) [][]any {
	line := []byte(strings.Repeat("x", bareLine))
	var list [][]any
	for i := range n {
		list = append(list, []any{fmt.Sprintf("T-%d", from%ingestTerminals), int64(from*n + i), line})
	}
	return list
}

// bareSQLite inserts batches with a prepared statement, a commit each.
func bareSQLite(b *testing.B, path string) {
	db := sql.OpenDB(connector{path: path})
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE bare(terminal TEXT, seq INTEGER, line BLOB, PRIMARY KEY(terminal, seq)) STRICT, WITHOUT ROWID"); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for i := range b.N {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		for _, row := range bareRows(ingestBatch, i) {
			if _, err := tx.Exec("INSERT INTO bare VALUES($1, $2, $3)", row...); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
}

func barePostgresTable(b *testing.B, database string) {
	ctx := b.Context()
	setup, err := pgx.Connect(ctx, database)
	if err != nil {
		b.Fatal(err)
	}
	_, err = setup.Exec(ctx, "CREATE TABLE bare(terminal TEXT, seq BIGINT, line BYTEA, PRIMARY KEY(terminal, seq))")
	if err := errors.Join(err, setup.Close(ctx)); err != nil {
		b.Fatal(err)
	}
}

// barePostgres copies batches over as many connections as there are terminals.
func barePostgres(b *testing.B, database string) {
	ctx := b.Context()
	barePostgresTable(b, database)
	var next atomic.Int64
	var group sync.WaitGroup
	b.ResetTimer()
	for range ingestTerminals {
		group.Go(func() {
			conn, err := pgx.Connect(ctx, database)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close(ctx)
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if _, err := conn.CopyFrom(ctx, pgx.Identifier{"bare"}, []string{"terminal", "seq", "line"}, pgx.CopyFromRows(bareRows(ingestBatch, int(i)))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N*ingestBatch)/b.Elapsed().Seconds(), "claims/s")
}
