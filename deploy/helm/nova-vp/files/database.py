# untested
# SPDX-License-Identifier: Apache-2.0
"""Make the database and its user, and give the user the password that it shall have."""

import os

import pymysql

DATABASE, USER = os.environ["VP_DATABASE"], os.environ["VP_USER"]

connection = pymysql.connect(
    host=os.environ["VP_DATABASE_HOST"],
    port=int(os.environ["VP_DATABASE_PORT"]),
    user=os.environ["USER"],
    password=os.environ["PASSWORD"],
    connect_timeout=10,
)
with connection, connection.cursor() as cursor:
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{DATABASE}` CHARACTER SET utf8mb4")
    password = os.environ["VP_PASSWORD"]
    cursor.execute("CREATE USER IF NOT EXISTS %s@'%%' IDENTIFIED BY %s", (USER, password))
    cursor.execute("ALTER USER %s@'%%' IDENTIFIED BY %s", (USER, password))
    cursor.execute(f"GRANT ALL PRIVILEGES ON `{DATABASE}`.* TO %s@'%%'", (USER,))
