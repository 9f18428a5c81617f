package inventory

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// DeleteRack makes a rack and all its components tombstones, at one moment. Tasks that run there go on as planned; what
// becomes of those that wait is the caller's to write in the same transaction.
func DeleteRack(ctx context.Context, q *db.Queries, id uuid.UUID) error {
	if _, err := lockLiveRack(ctx, q, id, ""); err != nil {
		return err
	}
	if err := q.ComponentDeleteByRack(ctx, db.ComponentDeleteByRackParams{RackID: &id}); err != nil {
		return err
	}
	return q.RackDelete(ctx, db.RackDeleteParams{ID: id})
}

// PurgeRack removes a deleted rack with its components and whatever is bound to it. Its tasks stay as history.
func PurgeRack(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) error {
	return write(ctx, pool, func(q *db.Queries) error {
		rack, err := q.RackLock(ctx, db.RackLockParams{ID: id})
		if err != nil {
			return rackFault(err, id, "")
		}
		if rack.DeletedAt == nil {
			return fault.Precondition("rack %s is not soft-deleted; call DeleteRack first", id)
		}
		live, err := q.ComponentListByRacks(ctx, db.ComponentListByRacksParams{RackIds: []uuid.UUID{id}})
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return fault.Precondition("rack %s has %d components that are not deleted, %s among them", id, len(live), live[0].ID)
		}
		tasks, err := q.TaskActiveByRacks(ctx, db.TaskActiveByRacksParams{RackIds: []uuid.UUID{id}})
		if err != nil {
			return err
		}
		if len(tasks) > 0 {
			return fault.Precondition("rack %s cannot be purged: %s task %s works on it", id, tasks[0].State, tasks[0].ID)
		}
		if err := q.ComponentPurgeByRack(ctx, db.ComponentPurgeByRackParams{RackID: &id}); err != nil {
			return err
		}
		return q.RackPurge(ctx, db.RackPurgeParams{ID: id})
	})
}

// RestoreRack makes a deleted rack live again, with the components that were deleted with it, unless others have taken
// their keys. MACs that others have taken stay where they are.
func RestoreRack(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) (Rack, error) {
	var restored Rack
	err := write(ctx, pool, func(q *db.Queries) error {
		rack, err := q.RackLock(ctx, db.RackLockParams{ID: id})
		if err != nil {
			return rackFault(err, id, "")
		}
		if rack.DeletedAt == nil {
			return fault.Precondition("rack %s is not deleted", id)
		}
		keys := NewRack{ExternalID: value(rack.ExternalID)}
		keys.Plate.Manufacturer, keys.Plate.Serial = value(rack.Manufacturer), value(rack.Serial)
		if err := checkRackFree(ctx, q, &keys); err != nil {
			return taken(err, "rack "+id.String())
		}
		dead, err := q.ComponentListByTombstone(ctx, db.ComponentListByTombstoneParams{RackID: &id, DeletedAt: rack.DeletedAt})
		if err != nil {
			return err
		}
		if err := checkComponentsFree(ctx, q, keysOf(dead)); err != nil {
			return taken(err, "a component of rack "+id.String())
		}
		if err := q.RackRestore(ctx, db.RackRestoreParams{ID: id}); err != nil {
			return err
		}
		err = q.ComponentRestore(ctx, db.ComponentRestoreParams{RackID: &id, DeletedAt: rack.DeletedAt})
		if err != nil {
			return err
		}
		rack.DeletedAt = nil
		racks, err := complete(ctx, q, []db.Rack{rack}, true)
		if err == nil {
			restored = racks[0]
		}
		return err
	})
	return restored, err
}

// taken puts a refusal because of a key that others have into the words of somebody who has sent no key.
func taken(err error, whose string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	return fault.Exists("a key of %s is taken: %s", whose, f.Text).On("id")
}

// keysOf are the keys that components need to have for themselves, but their ids, which nobody else can have.
func keysOf(rows []db.Component) []NewComponent {
	list := make([]NewComponent, len(rows))
	for i, row := range rows {
		c := &list[i]
		c.Type, c.ExternalID = hardware.ComponentType(row.Type), value(row.ExternalID)
		c.Plate.Manufacturer, c.Plate.Serial = value(row.Manufacturer), value(row.Serial)
	}
	return list
}

// DeleteComponent makes a component a tombstone. Tasks that name it go on as planned.
func DeleteComponent(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) error {
	n, err := db.New(pool).ComponentDelete(ctx, db.ComponentDeleteParams{ID: id})
	if err == nil && n == 0 {
		return componentNotFound(id)
	}
	return err
}

// PurgeComponent removes a deleted component with its BMCs, unless a task still names it.
func PurgeComponent(ctx context.Context, pool *pgxpool.Pool, id uuid.UUID) error {
	return write(ctx, pool, func(q *db.Queries) error {
		c, _, err := lockComponent(ctx, q, id)
		if err != nil {
			return err
		}
		if c.DeletedAt == nil {
			return fault.Precondition("component %s is not soft-deleted; call DeleteComponent first", id)
		}
		if err := refuseWhileActive(ctx, q, id, "purged"); err != nil {
			return err
		}
		return q.ComponentPurge(ctx, db.ComponentPurgeParams{ID: id})
	})
}

// lockLiveRack locks a rack that must be live; field is where the request names it.
func lockLiveRack(ctx context.Context, q *db.Queries, id uuid.UUID, field string) (db.Rack, error) {
	rack, err := q.RackLock(ctx, db.RackLockParams{ID: id})
	if err == nil && rack.DeletedAt != nil {
		err = store.ErrNotFound
	}
	return rack, rackFault(err, id, field)
}
