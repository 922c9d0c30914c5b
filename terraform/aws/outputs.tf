output "load_balancer_dns_name" {
  description = "What the DNS record of public_url points to."
  value       = aws_lb.this.dns_name
}

output "load_balancer_zone_id" {
  description = "The hosted zone of the load balancer, for an alias record."
  value       = aws_lb.this.zone_id
}

output "api_key_secret_arn" {
  description = "The secret with the first admin key."
  value       = aws_secretsmanager_secret.api_key.arn
}

output "redis_url_secret_arn" {
  description = "The secret with the URL of Redis."
  value       = aws_secretsmanager_secret.redis_url.arn
}

output "cluster_name" {
  description = "The ECS cluster, whose services are gateway and dispatcher."
  value       = aws_ecs_cluster.this.name
}

output "log_group_name" {
  description = "The log group of the tasks."
  value       = aws_cloudwatch_log_group.tasks.name
}

output "task_role_arns" {
  description = "The roles that gateways and dispatchers run as."
  value       = { for role, each in aws_iam_role.task : role => each.arn }
}

output "dispatcher_security_group_id" {
  description = "The security group of dispatchers: let it in where your targets call."
  value       = aws_security_group.dispatcher.id
}

output "redis_security_group_id" {
  description = "The security group of ElastiCache."
  value       = aws_security_group.redis.id
}
