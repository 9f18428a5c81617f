package inventory

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// attempts is how often a write is tried that collides with others. The first collision is the usual case, of two
// writers; more than a few take dozens of them with the same keys in different orders.
const attempts = 5

// errRaced says that what a write relied on has changed meanwhile.
var errRaced = errors.New("changed meanwhile")

// write runs fn in a transaction. When somebody recorded one of our keys after we had looked, fn runs again: now the
// holder is there to be named.
func write(ctx context.Context, pool *pgxpool.Pool, fn func(*db.Queries) error) error {
	var err error
	for range attempts {
		err = store.InTx(ctx, pool, func(tx pgx.Tx) error { return fn(db.New(tx)) })
		if !raced(err) {
			return err
		}
	}
	return keyFault(err)
}

// raced reports whether a concurrent write was the reason, so that another look may find it.
func raced(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, errRaced) || ok && (pg.Code == "23505" || pg.Code == "40P01") // unique violation, deadlock
}

// keyFault turns what still collides at the last attempt into a fault that names the key at least.
func keyFault(err error) error {
	if what, ok := uniqueKeys[store.Constraint(err)]; ok {
		return fault.Exists("%s was recorded by another request at the same time", what).Because(err)
	}
	if errors.Is(err, errRaced) {
		return fault.Precondition("other requests keep changing the same objects; try again").Because(err)
	}
	return err
}

// uniqueKeys are the unique indexes a write can hit.
var uniqueKeys = map[string]string{
	"rack_pkey":                  "the id of the rack",
	"rack_external_id_key":       "the external id of the rack",
	"rack_serial_key":            "the serial number of the rack",
	"component_pkey":             "the id of a component",
	"component_external_id_key":  "the external id of a component",
	"component_serial_key":       "the serial number of a component",
	"bmc_pkey":                   "the MAC address of a BMC",
	"nvl_domain_pkey":            "the id of the domain",
	"nvl_domain_name_key":        "the name of the domain",
	"nvl_domain_external_id_key": "the external id of the domain",
}

// rackFault names the rack that a look-up did not find.
func rackFault(err error, id uuid.UUID, field string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("rack %s not found", id).On(field).Because(err)
	}
	return err
}
